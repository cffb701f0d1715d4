"""Choose the starts of a prompt that a hosted provider's cache should keep: those that other prompts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flightllm.llm.engine import PrefixCache

_NEAR: Final = 0.75
"""A start with nearly enough estimated tokens counts too, because estimates are too low for rare words: a provider
ignores the mark of a start that is too short, and charges nothing for it."""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """A prompt as it is sent, and where its parts end, in characters; the shortest start is first."""

    text: str
    ends: tuple[int, ...] = ()
    """The ends of the instruction and of each field, without the end of the prompt."""
    shared: int = 0
    """The longest of these starts that enough prompts of the pass share; 0 if they share none."""
    before: int = 0
    """The tokens of the chat template before the text."""
    after: int = 0
    """The tokens of the chat template after the text."""


def starts_of(
    parts: PromptParts, cache: PrefixCache, known: Callable[[str, int], bool], tokens: Callable[[str], int]
) -> tuple[int, ...]:
    """Return the lengths of the starts to keep, the shortest first.

    `known` says whether the cache holds a start of a text now. `tokens` estimates the tokens of a text. A start is
    worth storing if several prompts share it, or if it is stored already and only has to be read.

    Example: a long instruction and a long guide, which ten of 100 rows have, give the starts `instruction` and
    `instruction, guide`.
    """
    text, floor = parts.text, cache.floor_tokens
    if cache.breakpoints:
        wanted = [
            end
            for end in parts.ends
            if (end <= parts.shared or known(text, end)) and tokens(text[:end]) >= _NEAR * floor
        ]
        return tuple(wanted if len(wanted) <= cache.most_marks else (wanted[0], *wanted[1 - cache.most_marks :]))
    if not cache.lead_characters:
        return ()
    shared = [end for end in parts.ends if end <= parts.shared and tokens(text[:end]) >= _NEAR * floor]
    if shared:
        return (shared[0],) if len(shared) == 1 else (shared[0], shared[-1])
    return (cache.lead_characters,) if len(text) >= cache.lead_characters else ()
