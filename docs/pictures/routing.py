"""The prompts of three groups, divided into one run for each of three replicas."""

from collections.abc import Iterator
from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture, text

RUNS: Final = ("AAAAAA", "AABBB", "CCCC")
"""The prompts that each replica gets, by the letter of the prefix that they share."""
_KINDS: Final = {"A": "asked", "B": "own", "C": "shared"}
_SIDE, _STEP, _ROW, _MARGIN = 26, 29, 50, 108


def draw() -> str:
    """Draw the picture."""
    line = "".join(RUNS)
    parts = [text(EDGE, 28, "Prompts by their prefix: A, B or C", "title", "start")]
    parts.extend(_prompts(EDGE, 42, line))
    middle = EDGE + _STEP * len(line) // 2
    parts.extend(arrow((middle, 42 + _SIDE + 4), (middle, 42 + _SIDE + 34)))
    parts.append(text(middle + 12, 42 + _SIDE + 24, "cut into runs", anchor="start"))
    top = 42 + _SIDE + 50
    for number, run in enumerate(RUNS):
        row = top + number * _ROW
        parts.append(text(EDGE, row + 19, f"Replica {number + 1}", "title", "start"))
        parts.extend(_prompts(_MARGIN, row, run))
    last = top + (len(RUNS) - 1) * _ROW
    spare = Box(_MARGIN + _STEP * len(RUNS[-1]), last, WIDTH - EDGE - _MARGIN - _STEP * len(RUNS[-1]), _SIDE)
    parts.extend(spare.bar("kept", "then part of another's run"))
    return picture("Prompts cut into runs for three replicas", WIDTH, spare.bottom + EDGE, parts)


def _prompts(left: int, top: int, prefixes: str) -> Iterator[str]:
    for number, prefix in enumerate(prefixes):
        yield from Box(left + _STEP * number, top, _SIDE, _SIDE).bar(_KINDS[prefix], prefix)
