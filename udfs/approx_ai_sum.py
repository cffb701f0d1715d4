"""approx_ai_sum: about the sum of the ratings of a group's rows, by questions about some of them."""

import pyarrow as pa

from flightllm.functions import (
    Answer,
    Arguments,
    Option,
    approximate,
    approximate_function,
    expected_number,
    rating_answer,
)


def build(call: Arguments) -> Answer:
    """Ask what ai_score asks; a row without an answer adds 0, so the scale has 0."""
    low, high = call.number("low"), call.number("high")
    asked = rating_answer(call.prompt, low, high)
    asked = asked if call.number("temperature") else expected_number(asked)
    return approximate(call, asked, "sum", pa.float64(), (min(low, 0.0), max(high, 0.0)))


FUNCTION = approximate_function(
    name="approx_ai_sum",
    summary="Add up a rating of the rows, about; within => is half the interval for each row, in units of the rating.",
    returns="double",
    own=(Option("low", float, 0.0), Option("high", float, 10.0)),
    build=build,
)
