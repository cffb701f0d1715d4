"""The picture of a server process that dies: each row is a part, time goes to the right."""

from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, picture, text

_ROWS: Final = (
    ("Server", (("asked", 0, 42, "serves"), ("gone", 42, 60, "dies"))),
    ("Spare", (("kept", 0, 60, "is warm, waits"), ("asked", 60, 100, "takes the port"))),
    ("Next spare", (("kept", 64, 100, "starts, waits"),)),
    ("Clients", (("shared", 0, 42, "get rows"), ("gone", 42, 60, "error"), ("shared", 60, 100, "try again"))),
    ("Supervisor", (("own", 0, 42, "watches"), ("own", 42, 100, "picks what to refuse"))),
    ("Disk", (("own", 0, 100, "tables and cached answers stay"),)),
)
"""A part and its activities: colour, start and end in hundredths of the time, and words."""
_MARGIN, _BAR, _ROW = 120, 30, 40


def draw() -> str:
    """Draw the picture."""
    span = WIDTH - EDGE - _MARGIN
    parts = [text(EDGE, 26, "time →", anchor="start")]
    for number, (name, bars) in enumerate(_ROWS):
        top = 40 + number * _ROW
        parts.append(text(EDGE, top + 20, name, "title", "start"))
        for kind, start, end, said in bars:
            left = _MARGIN + span * start // 100
            parts.extend(Box(left, top, span * (end - start) // 100 - 3, _BAR).bar(kind, said))
    return picture("The spare process takes over", WIDTH, 40 + len(_ROWS) * _ROW, parts)
