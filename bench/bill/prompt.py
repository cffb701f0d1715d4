"""A request as a provider's cache sees it: tokens in their order, and the places where blocks end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Tokenizes(Protocol):
    """A tokenizer: a text to its tokens."""

    def __call__(self, text: str, /) -> Sequence[int]:
        """Return the tokens of a text."""


@dataclass(frozen=True, slots=True)
class Block:
    """One content block of a message. `marked` says that the request puts a breakpoint at its end."""

    text: str
    marked: bool = False
    seconds: float = 0.0
    """The time to live that the mark asks for; 0 for the provider's default."""
    ends_message: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The end of a block: how many tokens are before it, and its mark."""

    tokens: int
    marked: bool
    seconds: float
    ends_message: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens of a request, the ends of its blocks, and what the request says about caching."""

    tokens: tuple[int, ...]
    ends: tuple[End, ...]
    key: str = ""
    """The value of `prompt_cache_key`."""
    explicit: bool = False
    """Whether only marked blocks are breakpoints: OpenAI's `prompt_cache_options` with the mode `explicit`."""


@dataclass(frozen=True, slots=True)
class Template:
    """The additions of a chat template: tokens around each message, and before the answer."""

    message: int
    answer: int


_AROUND = -1
"""Stands for a token of the chat template; tokenizers never return it."""


def build(
    blocks: Iterable[Block], template: Template, tokenize: Tokenizes, key: str = "", *, explicit: bool = False
) -> Prompt:
    """Return the prompt of some blocks in their order."""
    tokens: list[int] = []
    ends: list[End] = []
    begins = True
    for block in blocks:
        if begins:
            tokens += [_AROUND] * template.message
        tokens += tokenize(block.text)
        ends.append(End(len(tokens), block.marked, block.seconds, block.ends_message))
        begins = block.ends_message
    tokens += [_AROUND] * template.answer
    return Prompt(tuple(tokens), tuple(ends), key, explicit)
