"""Which blocks of a full cache the policy `planned` evicts first."""

from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture, text

_BANDS: Final = (
    ("own", "No planned prompt uses them", ("the least likely to be used soon", "goes first")),
    ("shared", "Later prompts share them", ("a running query will send these", "prompts; the oldest use goes first")),
    ("asked", "Waiting prompts need them", ("the engine has these prompts;", "what the last one needs goes first")),
)
"""The colour of a group of blocks, their description, and the block that is evicted first."""
_HEIGHT, _GAP, _BLOCK, _MARGIN = 86, 14, 26, 100


def draw() -> str:
    """Draw the picture."""
    parts = [text(EDGE, 28, "evicted first", "title", "start")]
    box = Box(0, 0, 0, 0)
    for number, (kind, title, lines) in enumerate(_BANDS):
        box = Box(_MARGIN, 42 + number * (_HEIGHT + _GAP), WIDTH - EDGE - _MARGIN, _HEIGHT)
        parts.extend(box.titled(title, lines))
        parts.extend(part for block in _blocks(box.middle) for part in block.bar(kind, ""))
    parts.extend(arrow((EDGE + 6, 42), (EDGE + 6, box.bottom)))
    parts.append(text(EDGE, box.bottom + 22, "evicted last", "title", "start"))
    return picture("The order in which blocks are evicted", WIDTH, box.bottom + 22 + EDGE, parts)


def _blocks(middle: int) -> list[Box]:
    """Return the places of four blocks beside a group's text."""
    step = _BLOCK + 4
    return [
        Box(EDGE + 22 + step * column, middle - step + 2 + step * row, _BLOCK, _BLOCK)
        for row in (0, 1)
        for column in (0, 1)
    ]
