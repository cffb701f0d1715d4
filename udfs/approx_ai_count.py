"""approx_ai_count: about how many rows of a group a statement is true for, by questions about some of its rows."""

import pyarrow as pa

from flightllm.functions import Answer, Arguments, approximate, approximate_function, yes_or_no_answer


def build(call: Arguments) -> Answer:
    """Ask what ai_filter asks, and count the rows where the answer is yes."""
    return approximate(call, yes_or_no_answer(call.prompt), "count", pa.int64(), (0.0, 1.0))


FUNCTION = approximate_function(
    name="approx_ai_count",
    summary="Count about how many rows a statement is true for; within => is half the interval as a share of rows.",
    returns="bigint",
    own=(),
    build=build,
)
