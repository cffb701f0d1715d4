"""Refuse a division by zero of doubles: DataFusion returns infinity for it."""

from typing import Final

import pyarrow as pa
from pyarrow import compute

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

DIVISOR = "__divisor"
"""The name of `divisors` as an SQL function."""


def divisors(values: pa.Array) -> pa.Array:
    """Return the same values.

    Raises:
        SqlError: a value is 0.
    """
    if compute.any(compute.equal(values, 0.0)).as_py():
        raise SqlError("division by zero: write nullif(…, 0) around the divisor")
    return values


FUNCTIONS: Final = (OwnFunction(divisors, (pa.float64(),), pa.float64(), DIVISOR),)
