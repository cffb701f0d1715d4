"""Questions with a text that only the rows tell, such as the labels that the model found in them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from flightllm.functions.answers import choice_answer
from flightllm.functions.call import AICall, name_stub
from flightllm.functions.over_set import LABELS_HERE

_LEAST_CHARACTERS: Final = 40


def filled(question: AICall, text: str) -> AICall:
    """Return the question with `text` in place of `LABELS_HERE`."""
    asked = question.asked
    if asked is not None:
        again = None if asked.again is None else asked.again.replace(LABELS_HERE, text)
        asked = replace(
            asked,
            task=asked.task.replace(LABELS_HERE, text),
            question=asked.question.replace(LABELS_HERE, text),
            reply=asked.reply.replace(LABELS_HERE, text),
            again=again,
        )
    return name_stub(replace(question, instruction=question.instruction.replace(LABELS_HERE, text), asked=asked))


def choosing(question: AICall, labels: Sequence[str], other: str) -> AICall:
    """Return the question whose answer is one of the labels or `other`; the prompt lists the labels."""
    answer = choice_answer("", [*labels, other])
    parameters = replace(
        question.parameters,
        constraint=answer.constraint,
        max_tokens=max(question.parameters.max_tokens, answer.max_tokens),
    )
    listed = "\n".join(f"- {label}" for label in labels)
    return name_stub(replace(filled(question, listed), parameters=parameters, parse=answer.parse))


def excerpts(texts: Sequence[str], most: int, each: int, fits: Callable[[str], bool]) -> str:
    """Return the beginnings of up to `most` texts as one list, with up to `each` characters of a text.

    `fits` says whether a prompt has room for a list. Without room, the list has fewer and shorter texts.
    """
    while True:
        listed = _listed(texts[:most], each)
        if fits(listed) or (most == 1 and each <= _LEAST_CHARACTERS):
            return listed
        most, each = max(1, min(most, len(texts)) * 3 // 4), max(_LEAST_CHARACTERS, each * 3 // 4)


def _listed(texts: Sequence[str], each: int) -> str:
    lines = []
    for text in texts:
        shown = " ".join(text.split())
        lines.append(f"- {shown if len(shown) <= each else f'{shown[:each]}…'}")
    return "\n".join(lines)
