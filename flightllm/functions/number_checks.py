"""Numbers that must be in a range, the place of a number among bounds, and the bits that are 1."""

from bisect import bisect_right
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

RANGE_BUCKET, ABOVE_ZERO, BIT_COUNT = "__range_bucket", "__above_zero", "__bit_count"
NOT_NEGATIVE, SUBSCRIPT_PLACE, ELEMENT_PLACE = "__not_negative", "__subscript_place", "__element_place"
"""The names of the functions in SQL."""


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


def not_negative(numbers: pa.Array, names: pa.Array) -> pa.Array:
    """Return numbers as they are.

    Raises:
        SqlError: a number is less than 0; the error has the name of the function that takes it.
    """
    for number, name in zip(numbers.to_pylist(), names.to_pylist(), strict=True):
        if number is not None and number < 0:
            raise SqlError(f"{name} takes a length of 0 or more, and not {number}: write greatest(length, 0)")
    return numbers


def subscript_places(subscripts: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return the places, which count from 1, of subscripts, which count from 0, of lists of some sizes.

    Raises:
        SqlError: a list has no such item.
    """
    for subscript, size in zip(subscripts.to_pylist(), sizes.to_pylist(), strict=True):
        if subscript is not None and size is not None and not 0 <= subscript < size:
            raise SqlError(f"the list has {size} items, and no item [{subscript}]: write get(list, {subscript})")
    return pc.add(subscripts, 1)


def element_places(places: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return places in lists of some sizes as they are; -1 is the last item.

    Raises:
        SqlError: a list has no such item.
    """
    for place, size in zip(places.to_pylist(), sizes.to_pylist(), strict=True):
        if place is not None and size is not None and not 1 <= abs(place) <= size:
            raise SqlError(
                f"element_at finds no item {place} in a list of {size}: write try_element_at(list, place), and a place"
                " from 1 on"
            )
    return places


def bit_counts(numbers: pa.Array) -> pa.Array:
    """Return how many bits of each number are 1; a negative number has 64 bits."""
    mask = 2**64 - 1
    return pa.array([None if one is None else (one & mask).bit_count() for one in numbers.to_pylist()], pa.int64())


def _bucket(number: float, bounds: list[float | None]) -> int:
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds) or known != sorted(known):
        raise SqlError("RANGE_BUCKET takes bounds that rise and are not NULL: write [0, 10, 20]")
    return bisect_right(known, number)


FUNCTIONS: Final = (
    OwnFunction(range_buckets, (pa.float64(), pa.list_(pa.float64())), pa.int64(), RANGE_BUCKET),
    OwnFunction(above_zero, (pa.float64(), pa.string()), pa.float64(), ABOVE_ZERO),
    OwnFunction(not_negative, (pa.int64(), pa.string()), pa.int64(), NOT_NEGATIVE),
    OwnFunction(subscript_places, (pa.int64(), pa.int64()), pa.int64(), SUBSCRIPT_PLACE),
    OwnFunction(element_places, (pa.int64(), pa.int64()), pa.int64(), ELEMENT_PLACE),
    OwnFunction(bit_counts, (pa.int64(),), pa.int64(), BIT_COUNT),
)
