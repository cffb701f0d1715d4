"""Round a double to a whole number as PostgreSQL does; DataFusion rounds halves away from zero."""

import pyarrow as pa
from pyarrow import compute

HALF_EVEN = "__half_even"
"""The name of `half_even` as an SQL function."""
HALF_EVEN_ARGUMENTS = (pa.float64(),)
HALF_EVEN_OUTPUT = pa.float64()


def half_even(values: pa.Array) -> pa.Array:
    """Return the nearest whole numbers, of two equally near ones the even one: 0.5 becomes 0, and 1.5 becomes 2."""
    return compute.round(values, round_mode="half_to_even")
