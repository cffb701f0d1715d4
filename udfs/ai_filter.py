"""ai_filter: whether a statement is true, for WHERE, JOIN … ON and HAVING."""

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
    yes_or_no_answer,
)


def build(call: Arguments) -> Answer:
    """Ask for Yes or No."""
    return yes_or_no_answer(call.prompt)


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
