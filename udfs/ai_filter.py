"""ai_filter: whether a statement is true, for WHERE, JOIN … ON and HAVING."""

import pyarrow as pa

from flightllm.functions import (
    CALIBRATE,
    CONFIDENCE,
    JOINING,
    LABELS_OPTION,
    QUALITY,
    AIFunction,
    Answer,
    Arguments,
    Kind,
    Parameter,
    choice_answer,
)

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Question marks of Latin, Chinese and Japanese, Arabic, and Greek script."""


def build(call: Arguments) -> Answer:
    """Ask for Yes or No; any other answer is an error, so a filter is never true by accident."""
    instruction = f"{call.prompt}\n\nAnswer Yes if this is so, otherwise No."
    answer = choice_answer(instruction, {"Yes": True, "No": False}, pa.bool_())
    is_question = call.prompt.rstrip().endswith(_QUESTION_MARKS)
    question = call.prompt if is_question else f"Statement: {call.prompt}\nIs the statement true?"
    return answer.in_parts(question, task="Check the record.", reply="Answer Yes or No.")


FUNCTION = AIFunction(
    name="ai_filter",
    summary="Return whether a statement or question about the given fields is true.",
    returns="boolean; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("prompt", Kind.PROMPT),),
    fields=True,
    options=(CONFIDENCE, CALIBRATE, LABELS_OPTION, *QUALITY, *JOINING),
    aliases={"ai_if": None},
    build=build,
)
