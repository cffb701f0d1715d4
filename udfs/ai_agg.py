"""ai_agg: one answer to an instruction about all texts of a group, however many there are."""

from flightllm.functions import AIFunction, Answer, Arguments, Kind, Option, Parameter, json_answer, text_answer
from flightllm.functions.aggregated import AGGREGATE_OPTIONS, aggregated


def build(call: Arguments) -> Answer:
    """Follow the instruction with all texts of the group."""
    task = call.text("instruction")
    schema = call.schema("response_format")
    result = text_answer(task, max_tokens=1_024) if schema is None else json_answer(task, schema)
    return aggregated(call, task, result)


FUNCTION = AIFunction(
    name="ai_agg",
    summary="Follow an instruction with all texts of a group. It is an aggregate, for GROUP BY, DISTINCT and FILTER.",
    returns=(
        "text; struct<value, citations> with citations => true or => a key column; a struct with response_format => a"
        " JSON Schema or a list of field names"
    ),
    parameters=(Parameter("text", Kind.FIELD), Parameter("instruction", Kind.TEXT)),
    options=(*AGGREGATE_OPTIONS, Option("response_format", tuple)),
    build=build,
)
