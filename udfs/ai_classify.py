"""ai_classify: one of the given labels, or with multi => true every label that applies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.functions import (
    CALIBRATE,
    CONFIDENCE,
    QUALITY,
    AICallError,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Option,
    Parameter,
    choice_answer,
    described,
    json_answer,
)

_MOST_REPEATED = 80
"""The most characters of a list of labels that is repeated after the values.

Repeating a short list brings the answers of small models nearer to the truth. A long list costs more than it brings:
with twelve repeated labels, a model of half a billion parameters was right less than half as often.
"""


def build(call: Arguments) -> Answer:
    """Constrain the answer to the labels, and to `other` for inputs that no label fits."""
    labels = call.labels("labels")
    meanings = call.meanings("labels")
    other = call.text("other").strip()
    other = next((label for label in labels if label.casefold() == other.casefold()), other)
    if call.flag("multi"):
        return _every_label(call, labels, other)
    options = labels if not other or other in labels else (*labels, other)
    unless = f" If no label fits, answer {other}." if other else ""
    instruction = f"Classify what follows. Answer with the one label that fits best: {', '.join(labels)}"
    answer = choice_answer(_told(instruction + (f".{unless}" if unless else ""), meanings), options)
    if len(", ".join(options)) > _MOST_REPEATED:
        question = f"Answer with the one label that fits the record best.{unless}"
        return answer.in_parts(question, task=f"Labels:\n{_listed(options, meanings)}", reply="", again="")
    reply = f"Answer with one of these labels: {', '.join(options)}."
    return answer.in_parts(f"Which label fits the record best?{unless}", task=_task(meanings), reply=reply)


def _every_label(call: Arguments, labels: Sequence[str], other: str) -> Answer:
    """Ask for a list, which can be empty; `other` replaces an empty list."""
    if call.flag("confidence"):
        raise AICallError("confidence => true works for one label only; leave out multi => true or confidence => true")
    meanings = call.meanings("labels")
    items = {"type": "array", "items": {"enum": labels}, "maxItems": len(labels)}
    schema = {"type": "object", "properties": {"labels": items}, "required": ["labels"]}
    instruction = "Classify what follows: list every label that applies."
    answer = json_answer(_told(instruction, meanings), json.dumps(schema))

    def parse(text: str) -> list[str]:
        given = answer.parse(text)["labels"]
        found = [label for label in labels if label in given]
        return found or [other] if other else found

    def write(example: Any) -> str:
        given = example if isinstance(example, list) else [example]
        folded = [str(label).casefold() for label in given if label != other or label in labels]
        found = [label for label in labels if label.casefold() in folded]
        if len(found) < len(folded):
            raise ValueError(f"expected a list of some of {', '.join(labels)}")
        return json.dumps({"labels": found}, ensure_ascii=False)

    longest = 32 + sum(len(label.encode()) + 6 for label in labels)
    found = Answer(
        answer.instruction, pa.list_(pa.string()), parse, answer.constraint, longest, reading=other, write=write
    )
    question = "Which labels apply to the record? List every label that applies."
    return replace(found, asked=answer.asked).in_parts(
        question, task=_task(meanings), again=f"{question} Answer with JSON."
    )


def _told(instruction: str, meanings: Mapping[str, str]) -> str:
    """Return the instruction, then a line for each label with a meaning."""
    return "\n".join(part for part in (instruction, described(meanings)) if part)


def _listed(labels: Sequence[str], meanings: Mapping[str, str]) -> str:
    """Return a line for each label and its meaning, if there is a meaning. All rows share this text."""
    return "\n".join(f"- {label}: {meanings[label]}" if label in meanings else f"- {label}" for label in labels)


def _task(meanings: Mapping[str, str]) -> str:
    """Describe the job, and the meanings of the labels."""
    return f"Classify the record.\n\nThe labels:\n{described(meanings)}" if meanings else "Classify the record."


FUNCTION = AIFunction(
    name="ai_classify",
    summary="Assign one of the labels, or with multi => true all that apply; other => 'none' where no label fits.",
    returns="text; a list of text with multi => true; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("input", Kind.FIELD), Parameter("labels", Kind.LABELS)),
    options=(Option("multi", bool, default=False), Option("other", str, ""), CONFIDENCE, CALIBRATE, *QUALITY),
    build=build,
)
