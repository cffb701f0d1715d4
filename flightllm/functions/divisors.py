"""Refuse a division by zero of doubles: DataFusion returns infinity for it."""

import pyarrow as pa
from pyarrow import compute

from flightllm.errors import SqlError

DIVISOR = "__divisor"
"""The name of `divisors` as an SQL function."""
DIVISOR_ARGUMENTS = (pa.float64(),)
DIVISOR_OUTPUT = pa.float64()


def divisors(values: pa.Array) -> pa.Array:
    """Return the same values.

    Raises:
        SqlError: a value is 0.
    """
    if compute.any(compute.equal(values, 0.0)).as_py():
        raise SqlError("division by zero: write nullif(…, 0) around the divisor")
    return values
