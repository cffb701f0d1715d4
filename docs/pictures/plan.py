"""The steps of a query: boxes in rows, with an arrow from each box to the next."""

from itertools import pairwise
from typing import Final

from docs.pictures.drawing import EDGE, Box, arrow, picture

_STEPS: Final = (
    ("SQL", ("any Flight SQL client",)),
    ("Plain conditions", ("run first: fewer", "rows reach the model")),
    ("Equal prompts", ("are sent once, across", "queries and clients")),
    ("Shared starts", ("go one after the other:", "the cache serves them")),
    ("Model", ("your GPU, or any", "hosted endpoint")),
    ("Answers", ("are checked, kept,", "streamed as Arrow")),
)
_COLUMNS, _WIDTH, _HEIGHT, _GAP = 2, 204, 92, 34


def draw() -> str:
    """Draw the picture."""
    boxes = [_box(number) for number in range(len(_STEPS))]
    parts = [part for box, (title, lines) in zip(boxes, _STEPS, strict=True) for part in box.titled(title, lines)]
    for before, box in pairwise(boxes):
        parts.extend(_arrow(before, box))
    return picture("The life of a query", boxes[_COLUMNS - 1].right + EDGE, boxes[-1].bottom + EDGE, parts)


def _box(number: int) -> Box:
    row, column = divmod(number, _COLUMNS)
    return Box(EDGE + column * (_WIDTH + _GAP), EDGE + row * (_HEIGHT + _GAP), _WIDTH, _HEIGHT)


def _arrow(before: Box, box: Box) -> list[str]:
    """Draw the arrow to a box: from its left, or from the end of the row above."""
    if before.top == box.top:
        return arrow((before.right + 2, before.middle), (box.left - 2, box.middle))
    turn = box.top - _GAP // 2
    return arrow(
        (before.centre, before.bottom + 2), (before.centre, turn), (box.centre, turn), (box.centre, box.top - 2)
    )
