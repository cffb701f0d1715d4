"""The sources of a prompt's answer: three questions, and the model if all answers are no."""

from itertools import pairwise
from typing import Final

from docs.pictures.drawing import EDGE, WIDTH, Box, arrow, picture, text

_QUESTIONS: Final = (
    (("Does another row of this", "query have this prompt?"), ("one answer", "for all these rows")),
    (("Does the cache have", "an answer to it?"), ("the cached answer",)),
    (("Does another query", "ask it now?"), ("that answer,", "once it comes")),
)
"""Each question, and the source of the answer if the reply is yes."""
_HEIGHT, _GAP, _ASKED, _FOUND = 62, 32, 236, 160


def draw() -> str:
    """Draw the picture."""
    boxes = [Box(EDGE, EDGE + row * (_HEIGHT + _GAP), _ASKED, _HEIGHT) for row in range(len(_QUESTIONS) + 2)]
    parts = boxes[0].titled("The prompt of a row")
    for box, (question, found) in zip(boxes[1:], _QUESTIONS, strict=False):
        parts.extend(box.lines(question))
        answer = Box(WIDTH - EDGE - _FOUND, box.top, _FOUND, _HEIGHT)
        parts.extend(answer.lines(found, "kept"))
        parts.extend(arrow((box.right + 2, box.middle), (answer.left - 2, answer.middle)))
        parts.append(text((box.right + answer.left) // 2 - 4, box.middle - 8, "yes"))
    parts.extend(boxes[-1].titled("Model", ("its answer is kept",)))
    for number, (before, box) in enumerate(pairwise(boxes)):
        parts.extend(arrow((before.centre, before.bottom + 2), (box.centre, box.top - 2)))
        if number:
            parts.append(text(box.centre + 10, box.top - 11, "no", anchor="start"))
    return picture("Where an answer comes from", WIDTH, boxes[-1].bottom + EDGE, parts)
