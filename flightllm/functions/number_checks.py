"""Numbers in ranges: the place among bounds, a number that must be above zero, and the bits that are 1."""

from bisect import bisect_right
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError

RANGE_BUCKET, ABOVE_ZERO, BIT_COUNT = "__range_bucket", "__above_zero", "__bit_count"
"""The names of the functions in SQL."""
BOUNDS: Final = pa.list_(pa.float64())


def range_buckets(numbers: pa.Array, bounds: pa.Array) -> pa.Array:
    """Return how many of the bounds, which are in their order, are at most a number.

    Raises:
        SqlError: a bound is NULL, or the bounds are in another order.
    """
    rows = zip(numbers.to_pylist(), bounds.to_pylist(), strict=True)
    return pa.array([None if None in row else _bucket(*row) for row in rows], pa.int64())


def above_zero(numbers: pa.Array, names: pa.Array) -> pa.Array:
    """Return numbers as they are.

    Raises:
        SqlError: a number is 0 or less; the error has the name of the function that takes it.
    """
    for number, name in zip(numbers.to_pylist(), names.to_pylist(), strict=True):
        if number is not None and number <= 0:
            raise SqlError(f"{name} takes a number above 0, and not {number}: write SAFE.{name}(x), which is NULL")
    return numbers


def bit_counts(numbers: pa.Array) -> pa.Array:
    """Return how many bits of each number are 1; a negative number has 64 bits."""
    mask = 2**64 - 1
    return pa.array([None if one is None else (one & mask).bit_count() for one in numbers.to_pylist()], pa.int64())


def _bucket(number: float, bounds: list[float | None]) -> int:
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds) or known != sorted(known):
        raise SqlError("RANGE_BUCKET takes bounds that rise and are not NULL: write [0, 10, 20]")
    return bisect_right(known, number)
