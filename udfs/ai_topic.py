"""ai_topic: the topic of a text, from a few topics that the model finds in all rows; for GROUP BY."""

import json
from dataclasses import replace

import pyarrow as pa

from flightllm.functions import (
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
    SetAnswer,
    SetQuestion,
    json_answer,
    text_answer,
)
from flightllm.functions.over_set import LABELS_HERE

MOST_TOPICS = 50
_LONGEST = 60
"""The most characters of a topic that the model can propose."""


def build(call: Arguments) -> Answer:
    """Ask for topics of a sample, then for the topic of each text, with `other` where no topic fits."""
    other, hint = call.text("other").strip(), call.text("hint").strip()
    if not other:
        raise AICallError("other must be the topic of texts that fit no topic, such as 'other'")
    about = f" {hint.rstrip('.')}." if hint else ""
    many = f"at most {LABELS_HERE}"
    propose = _listing(
        f"Find the topics of the texts below: {many} topics, the most frequent one first.{about} Each topic has one to"
        " four words. The topics do not overlap, and together they cover most of the texts.",
        call.integer("k"),
    )
    question = f"Which topic fits the text best? If no topic fits, answer {other}."
    label = text_answer(f"{question}\nTopics: {LABELS_HERE}", max_tokens=64)
    label = label.in_parts(question, task=f"Assign a topic to the text.\n\nThe topics:\n{LABELS_HERE}", reply="")
    questions = {"propose": SetQuestion(propose, ("text",)), "label": SetQuestion(label, ("text",))}
    over = SetAnswer("topic", questions, (("k", call.integer("k")), ("other", other)))
    return Answer("", pa.string(), str, over=over)


def _listing(instruction: str, k: int) -> Answer:
    """Return the answer with at most k topics; of a model that writes more, the first ones count."""
    own, any_number = (json_answer(instruction, _schema(most)) for most in (k, MOST_TOPICS))
    return replace(own, parse=any_number.parse)


def _schema(most: int) -> str:
    label = {"type": "string", "maxLength": _LONGEST}
    topics = {"type": "array", "items": label, "minItems": 1, "maxItems": most}
    return json.dumps(
        {"type": "object", "properties": {"topics": topics}, "required": ["topics"], "additionalProperties": False}
    )


FUNCTION = AIFunction(
    name="ai_topic",
    summary="Return the topic of a text, one of at most k (8) topics that the model finds in the rows, or other.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    options=(
        Option("k", int, 8, low=1, high=MOST_TOPICS),
        Option("other", str, "other"),
        Option("hint", str, ""),
    ),
    build=build,
)
