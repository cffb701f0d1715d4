"""Round a double to a whole number as PostgreSQL does; DataFusion rounds halves away from zero."""

from typing import Final

import pyarrow as pa
from pyarrow import compute

from flightllm.functions.own import OwnFunction

HALF_EVEN = "__half_even"
"""The name of `half_even` as an SQL function."""


def half_even(values: pa.Array) -> pa.Array:
    """Return the nearest whole numbers, of two equally near ones the even one: 0.5 becomes 0, and 1.5 becomes 2."""
    return compute.round(values, round_mode="half_to_even")


FUNCTIONS: Final = (OwnFunction(half_even, (pa.float64(),), pa.float64(), HALF_EVEN),)
