"""The tokens by which prompts are routed: the model's own where they are known, otherwise pieces of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from flightllm.engines.predict import tokenizing
from flightllm.llm.engine import Engine, Request
from flightllm.router.tree import pack

_CHARS_PER_TOKEN: Final = 4


def packed_tokens(engine: Engine, requests: Sequence[Request]) -> list[bytes]:
    """Return the packed tokens of each prompt, by the engine's tokenizer.

    Without a tokenizer, each four characters count as one token.
    """
    prompts = [request.prompt for request in requests]
    known = tokenizing(engine)
    if known is not None:
        return [pack(ids) for ids in known.token_ids(prompts)]
    return [pack(pieces(prompt)) for prompt in prompts]


def pieces(prompt: str) -> list[int]:
    """Return a number for each four characters of a text; texts with a common start begin with the same numbers."""
    data = prompt.encode("utf-32-le", "surrogatepass")
    size = 4 * _CHARS_PER_TOKEN
    return [crc32(data[start : start + size]) for start in range(0, len(data), size)]
