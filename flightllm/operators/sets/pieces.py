"""Cut a text that is longer than a prompt into pieces, at ends of lines and sentences where there are some."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from flightllm.operators.sets.cuts import rank, runs

_ENDS: Final = (
    re.compile(r"(?<=\n\n)"),
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<=[.!?]) +|(?<=[\u3002\uff01\uff1f\u0964])"),
    re.compile(r"(?<=\s)"),
)
"""Where a text can be cut, the best places first: paragraphs, lines, sentences, words."""
_LEVEL: Final = 0xFFFF
"""The level of `rank` that no level of notes has."""
_UNITS: Final = 8
"""A unit has at most this part of a piece, so that pieces are cut by their content."""


def pieces(text: str, most: int, count: Callable[[str], int]) -> list[str]:
    """Return a text in pieces of at most `most` tokens, cut by content; `count` counts tokens."""
    if count(text) <= most:
        return [text]
    units = list(_units(text, max(1, most // _UNITS), count, 0))
    sizes = [min(most, count(unit) + 1) for unit in units]
    ranks = [rank(unit, _LEVEL) for unit in units]
    found = ("".join(units[at] for at in run).strip() for run in runs(sizes, ranks, most))
    return [piece for piece in found if piece]


def _units(text: str, most: int, count: Callable[[str], int], way: int) -> Iterator[str]:
    if count(text) <= most or len(text) == 1:
        yield text
    elif way < len(_ENDS):
        for part in _kept(_ENDS[way], text):
            yield from _units(part, most, count, way + 1)
    else:
        half = len(text) // 2
        yield from _units(text[:half], most, count, way)
        yield from _units(text[half:], most, count, way)


def _kept(ends: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the parts of a text; the characters of an end belong to the part before it."""
    first = 0
    for end in ends.finditer(text):
        if first < end.end() < len(text):
            yield text[first : end.end()]
            first = end.end()
    yield text[first:]
