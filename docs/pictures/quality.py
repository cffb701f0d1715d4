"""Which rows a cascade asks: bins of rising scores, and the part of each that is asked."""

from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture, text

_ASKED: Final = (4, 6, 10, 18, 34, 60, 100, 100, 72, 40, 22, 12, 6)
"""The part of each bin that is asked, in hundredths."""
_CUT: Final = 7
"""The bins left of the cut are rejected."""
_TOP, _TALL, _GAP = 44, 110, 4


def draw() -> str:
    """Draw the picture."""
    step = (WIDTH - 2 * EDGE + _GAP) // len(_ASKED)
    parts = []
    for number, part in enumerate(_ASKED):
        left, asked = EDGE + step * number, _TALL * part // 100
        if part < 100:
            kind = "kept" if number < _CUT else "own"
            parts.extend(Box(left, _TOP, step - _GAP, _TALL - asked).bar(kind, ""))
        parts.extend(Box(left, _TOP + _TALL - asked, step - _GAP, asked).bar("asked", ""))
    cut = EDGE + step * _CUT - _GAP // 2
    below = _TOP + _TALL
    parts.extend([
        text((EDGE + cut) // 2, 28, "rejected unasked", "title"),
        text((cut + WIDTH - EDGE) // 2, 28, "accepted unasked", "title"),
        text(cut, below + 24, "the cut; full bars are asked"),
        *arrow((EDGE, below + 44), (WIDTH - EDGE, below + 44)),
        text(EDGE, below + 64, "low scores", anchor="start"),
        text(WIDTH - EDGE, below + 64, "high scores", anchor="end"),
    ])  # fmt: skip
    return picture("The part of each bin that is asked", WIDTH, below + 64 + EDGE, parts)
