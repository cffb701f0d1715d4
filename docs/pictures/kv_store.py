"""The shared start of prompts, cut into chunks, which moves from one engine to the next."""

from itertools import pairwise
from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture, text

SHARED: Final = 700
"""Tokens of the start in the picture."""
CHUNKS: Final = (256, 128, 128, 128)
"""The tokens of each stored chunk of the start."""
_STEPS: Final = (
    ("First engine", ("computes the", "start and saves", "its chunks")),
    ("KV store", ("keeps chunks", "outside of", "the engine")),
    ("Next engine", ("loads them and", "computes what", "is missing")),
)
_BAR, _TOKEN, _OWN = 32, 0.5, 96
_TOP, _HEIGHT, _STEP, _GAP = 128, 110, 136, 24


def draw() -> str:
    """Draw the picture."""
    left = EDGE
    parts = [text(EDGE, 28, "A prompt and its chunks", "title", "start")]
    for tokens in CHUNKS:
        chunk = Box(left, 42, round(tokens * _TOKEN) - 3, _BAR)
        parts.extend(chunk.bar("asked", str(tokens)))
        left = chunk.right + 3
    left_out = SHARED - sum(CHUNKS)
    rest = Box(left, 42, round(left_out * _TOKEN) - 3, _BAR)
    parts.extend(rest.bar("kept", str(left_out)))
    own = Box(rest.right + 3, 42, WIDTH - EDGE - rest.right - 3, _BAR)
    parts.extend(own.bar("own", "own fields"))
    parts.append(text(EDGE, 96, f"{SHARED} shared tokens: all but {left_out} are kept", anchor="start"))
    boxes = [Box(EDGE + number * (_STEP + _GAP), _TOP, _STEP, _HEIGHT) for number in range(len(_STEPS))]
    for box, (title, lines) in zip(boxes, _STEPS, strict=True):
        parts.extend(box.titled(title, lines))
    for before, box in pairwise(boxes):
        parts.extend(arrow((before.right + 1, before.middle), (box.left - 1, box.middle)))
    return picture("A start on its way to the next engine", WIDTH, boxes[0].bottom + EDGE, parts)
