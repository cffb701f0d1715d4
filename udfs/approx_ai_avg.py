"""approx_ai_avg: about the mean rating of a group's rows, by questions about some of them."""

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
    """Ask what ai_score asks."""
    low, high = call.number("low"), call.number("high")
    asked = rating_answer(call.prompt, low, high)
    asked = asked if call.number("temperature") else expected_number(asked)
    return approximate(call, asked, "avg", pa.float64(), (low, high))


FUNCTION = approximate_function(
    name="approx_ai_avg",
    summary="Average a rating of the rows, about; within => is half the interval, in units of the rating.",
    returns="double",
    own=(Option("low", float, 0.0), Option("high", float, 10.0)),
    build=build,
)
