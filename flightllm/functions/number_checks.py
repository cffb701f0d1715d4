"""Numbers that must be in a range, the place of a number among bounds, and the bits that are 1."""

from bisect import bisect_right
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

RANGE_BUCKET, ABOVE_ZERO, BIT_COUNT = "__range_bucket", "__above_zero", "__bit_count"
NOT_NEGATIVE, SUBSCRIPT_PLACE, ELEMENT_PLACE = "__not_negative", "__subscript_place", "__element_place"
OFFSET_PLACE, ONLY_KNOWN = "__offset_place", "__only_known"
"""The names of the functions in SQL."""


def range_buckets(numbers: pa.Array, bounds: pa.Array) -> pa.Array:
    """Return how many of the bounds, which are in their order, are at most a number.

    Raises:
        SqlError: a bound is NULL, or the bounds are in another order.
    """
    return each_row(_bucket, numbers, bounds, kind=pa.int64())


def above_zero(numbers: pa.Array, names: pa.Array) -> pa.Array:
    """Return numbers as they are.

    Raises:
        SqlError: a number is 0 or less; the error has the name of the function that takes it.
    """
    if found := _first(pc.less_equal(numbers, 0.0), numbers, names):
        number, name = found
        raise SqlError(f"{name} takes a number above 0, and not {number}: write SAFE.{name}(x), which is NULL")
    return numbers


def not_negative(numbers: pa.Array, names: pa.Array) -> pa.Array:
    """Return numbers as they are.

    Raises:
        SqlError: a number is less than 0; the error has the name of the function that takes it.
    """
    if found := _first(pc.less(numbers, 0), numbers, names):
        number, name = found
        raise SqlError(f"{name} takes a length of 0 or more, and not {number}: write greatest(length, 0)")
    return numbers


def subscript_places(subscripts: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return the places, which count from 1, of subscripts, which count from 0, of lists of some sizes.

    Raises:
        SqlError: a list has no such item.
    """
    missing = pc.or_(pc.less(subscripts, 0), pc.greater_equal(subscripts, sizes))
    if found := _first(missing, subscripts, sizes):
        subscript, size = found
        raise SqlError(f"the list has {size} items, and no item [{subscript}]: write get(list, {subscript})")
    return pc.add(subscripts, 1)


def element_places(places: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return places in lists of some sizes as they are; -1 is the last item.

    Raises:
        SqlError: a list has no such item.
    """
    counts = pc.abs(places)  # that of the least number is negative, and below 1 too
    if found := _first(pc.or_(pc.less(counts, 1), pc.greater(counts, sizes)), places, sizes):
        place, size = found
        raise SqlError(
            f"element_at finds no item {place} in a list of {size}: write try_element_at(list, place), and a place"
            " from 1 on"
        )
    return places


def offset_places(places: pa.Array, sizes: pa.Array, firsts: pa.Array) -> pa.Array:
    """Return the places, which count from 1, of items of lists of some sizes; the first item has the number `firsts`.

    Raises:
        SqlError: a list has no such item.
    """
    missing = pc.or_(pc.less(places, firsts), pc.greater_equal(pc.subtract(places, firsts), sizes))
    if found := _first(missing, places, firsts):
        place, first = found
        word = "SAFE_ORDINAL" if first else "SAFE_OFFSET"
        raise SqlError(f"array index {place} is out of bounds: write list[{word}({place})], which is NULL there")
    return pc.subtract(pc.add(places, 1), firsts)


def only_known(rows: pa.Array, known: pa.Array) -> pa.Array:
    """Return true for each row.

    Raises:
        SqlError: a group has fewer values that are not NULL than rows.
    """
    if pc.any(pc.greater(rows, known)).as_py():
        raise SqlError(
            "an array of a result cannot have a NULL element: write ARRAY_AGG(a IGNORE NULLS), or"
            " ARRAY_AGG(COALESCE(a, 0))"
        )
    return pc.equal(rows, rows)


def bit_counts(numbers: pa.Array) -> pa.Array:
    """Return how many bits of each number are 1; a negative number has 64 bits."""
    mask = 2**64 - 1
    return pa.array([None if one is None else (one & mask).bit_count() for one in numbers.to_pylist()], pa.int64())


def _first(wrong: pa.Array, *columns: pa.Array) -> list[Any] | None:
    """Return the values of the first row that is wrong, or None if all rows are right."""
    place = pc.index(wrong, True).as_py()
    return None if place < 0 else [column[place].as_py() for column in columns]


def _bucket(number: float, bounds: list[float | None]) -> int:
    return bisect_right(_rising(tuple(bounds)), number)


@lru_cache(maxsize=64)
def _rising(bounds: tuple[float | None, ...]) -> list[float]:
    """Return bounds that were checked once for all rows with these bounds."""
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds) or known != sorted(known):
        raise SqlError("RANGE_BUCKET takes bounds that rise and are not NULL: write [0, 10, 20]")
    return known


FUNCTIONS: Final = (
    OwnFunction(range_buckets, (pa.float64(), pa.list_(pa.float64())), pa.int64(), RANGE_BUCKET),
    OwnFunction(above_zero, (pa.float64(), pa.string()), pa.float64(), ABOVE_ZERO),
    OwnFunction(not_negative, (pa.int64(), pa.string()), pa.int64(), NOT_NEGATIVE),
    OwnFunction(subscript_places, (pa.int64(), pa.int64()), pa.int64(), SUBSCRIPT_PLACE),
    OwnFunction(element_places, (pa.int64(), pa.int64()), pa.int64(), ELEMENT_PLACE),
    OwnFunction(offset_places, (pa.int64(), pa.int64(), pa.int64()), pa.int64(), OFFSET_PLACE),
    OwnFunction(only_known, (pa.int64(), pa.int64()), pa.bool_(), ONLY_KNOWN),
    OwnFunction(bit_counts, (pa.int64(),), pa.int64(), BIT_COUNT),
)
