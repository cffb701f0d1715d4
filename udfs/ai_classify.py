"""ai_classify: one of the given labels, or with multi => true every label that applies."""

import json
from dataclasses import replace

import pyarrow as pa

from flightllm.functions import (
    CONFIDENCE,
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
    choice_answer,
    json_answer,
)


def build(call: Arguments) -> Answer:
    """Constrain to the labels."""
    labels = call.labels("labels")
    if not call.flag("multi"):
        instruction = "Classify what follows. Answer with the one label that fits best: "
        answer = choice_answer(instruction + ", ".join(labels), labels)
        reply = f"Answer with one of these labels: {', '.join(labels)}."
        return answer.in_parts("Which label fits the record best?", task="Classify the record.", reply=reply)
    if call.flag("confidence"):
        raise AICallError("confidence => true is of one label; leave out multi => true or confidence => true")
    items = {"type": "array", "items": {"enum": labels}, "maxItems": len(labels)}
    schema = {"type": "object", "properties": {"labels": items}, "required": ["labels"]}
    answer = json_answer("Classify what follows: list every label that applies.", json.dumps(schema))

    def parse(text: str) -> list[str]:
        given = answer.parse(text)["labels"]
        return [label for label in labels if label in given]

    longest = 32 + sum(len(label.encode()) + 6 for label in labels)
    found = Answer(answer.instruction, pa.list_(pa.string()), parse, answer.constraint, longest)
    question = f"Which of these labels apply to the record: {', '.join(labels)}? List every label that applies."
    return replace(found, asked=answer.asked).in_parts(question, task="Classify the record.")


FUNCTION = AIFunction(
    name="ai_classify",
    summary="Assign one of the labels, or with multi => true all that apply.",
    returns="text; a list of text with multi => true; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("input", Kind.FIELD), Parameter("labels", Kind.LABELS)),
    options=(Option("multi", bool, default=False), CONFIDENCE),
    build=build,
)
