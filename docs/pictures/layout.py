"""The folders of the code that a query passes, and the folders that return the rows."""

from itertools import pairwise
from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture

_PATH: Final = (
    ("flight", "speaks with clients"),
    ("session, dialect, sql", "read the statement"),
    ("execution", "plans and runs it"),
    ("plan, optimizer", "place the AI calls"),
    ("operators", "run the AI calls"),
    ("engines", "ask the model"),
)
"""In the order in which a query passes them."""
_SIDE: Final = (("catalog, storage", "hold the tables"), ("vector", "holds the indexes"))
_HEIGHT, _GAP, _WIDE = 62, 28, 210


def draw() -> str:
    """Draw the picture."""
    boxes = [Box(EDGE, EDGE + row * (_HEIGHT + _GAP), _WIDE, _HEIGHT) for row in range(len(_PATH))]
    parts = [part for box, (name, does) in zip(boxes, _PATH, strict=True) for part in box.titled(name, (does,))]
    for before, box in pairwise(boxes):
        parts.extend(arrow((before.centre, before.bottom + 2), (box.centre, box.top - 2)))
    at = next(place for place, (name, _) in enumerate(_PATH) if name == "operators")
    operators = boxes[at]
    for number, (name, does) in enumerate(_SIDE):
        row = boxes[at - 1 + 2 * number]
        side = Box(WIDTH - EDGE - _WIDE, row.top, _WIDE, _HEIGHT)
        parts.extend(side.titled(name, (does,)))
        end = operators.middle - 8 + 16 * number
        edge = side.top if number else side.bottom
        parts.extend(arrow((side.centre, edge), (side.centre, end), (operators.right + 2, end)))
    return picture("The folders that a query passes", WIDTH, boxes[-1].bottom + EDGE, parts)
