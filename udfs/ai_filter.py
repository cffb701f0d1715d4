"""ai_filter: whether a statement holds, for WHERE, JOIN … ON and HAVING."""

import pyarrow as pa

from flightllm.functions import CONFIDENCE, AIFunction, Answer, Arguments, Kind, Parameter, choice_answer


def build(call: Arguments) -> Answer:
    """Ask for Yes or No; anything else is an error, so a filter is never true by accident."""
    instruction = f"{call.prompt}\n\nAnswer Yes if this is so, otherwise No."
    return choice_answer(instruction, {"Yes": True, "No": False}, pa.bool_())


FUNCTION = AIFunction(
    name="ai_filter",
    summary="Tell whether a statement or question about the given fields is true.",
    returns="boolean; struct<answer, confidence> with confidence => true",
    parameters=(Parameter("prompt", Kind.PROMPT),),
    fields=True,
    options=(CONFIDENCE,),
    aliases={"ai_if": None},
    build=build,
)
