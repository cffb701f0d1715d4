"""Sums, differences and products of 64-bit numbers outside the range are errors: DataFusion wraps them around."""

from collections.abc import Callable
from operator import add, mul, sub
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

ADDED, SUBTRACTED, MULTIPLIED, SUMMED = "__added", "__subtracted", "__multiplied", "__summed"
CHAINED = "__chained_numbers"
"""The names of the functions in SQL."""
_RANGE: Final = 1 << 64


def summed(sums: pa.Array, near: pa.Array) -> pa.Array:
    """Return sums that DataFusion wraps around, if the same sums of doubles are near them.

    The double of a sum that was wrapped around differs by 2^64 or more, and the rounding of doubles by much less.

    Raises:
        SqlError: a sum was wrapped around.
    """
    gaps = pc.subtract(near, pc.cast(sums, pa.float64(), safe=False))
    place = pc.index(pc.greater(pc.abs(gaps), _RANGE / 2), True).as_py()
    if place >= 0:
        raise _outside(sums[place].as_py() + round(gaps[place].as_py() / _RANGE) * _RANGE)
    return sums


def chained(steps: pa.Array, operands: pa.Array) -> pa.Array:
    """Return the results of steps such as `+64 *32` over lists of operands, each from the result before it.

    A step is an operator and the bits of its result. All rows have the same steps, which a pass writes.

    Raises:
        SqlError: the result of a step is outside of its range.
    """
    if not len(operands):
        return pa.array([], pa.int64())
    result = pc.list_element(operands, 0)
    for place, step in enumerate(str(steps[0]).split(), 1):
        result = _OPERATORS[step[0]](result, pc.list_element(operands, place))
        most = 1 << (int(step[1:]) - 1)
        if most < _RANGE // 2 and (found := _first_outside(result, most)) is not None:
            raise _outside(found)
    return result


def _first_outside(numbers: pa.Array, most: int) -> int | None:
    place = pc.index(pc.or_(pc.less(numbers, -most), pc.greater_equal(numbers, most)), True).as_py()
    return int(numbers[place].as_py()) if place >= 0 else None


def _checked(compute: Callable[..., pa.Array], exact: Callable[[int, int], int]) -> Callable[..., pa.Array]:
    """Return a function over two columns that raises SqlError for the first result outside the range."""

    def computed(left: pa.Array, right: pa.Array) -> pa.Array:
        try:
            return compute(left, right)
        except pa.ArrowInvalid:
            rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
            results = (exact(*row) for row in rows if None not in row)
            raise _outside(next(one for one in results if not -_RANGE // 2 <= one < _RANGE // 2)) from None

    return computed


def _outside(number: int) -> SqlError:
    return SqlError(
        f"the number {number} is out of range of its type: write a wider type, as in CAST(… AS BIGINT) or"
        " CAST(… AS NUMERIC)"
    )


_OPERATORS: Final = {
    "+": _checked(pc.add_checked, add),
    "-": _checked(pc.subtract_checked, sub),
    "*": _checked(pc.multiply_checked, mul),
}


def _of_two(sign: str, name: str) -> OwnFunction:
    return OwnFunction(_OPERATORS[sign], (pa.int64(), pa.int64()), pa.int64(), name)


FUNCTIONS: Final = (
    _of_two("+", ADDED),
    _of_two("-", SUBTRACTED),
    _of_two("*", MULTIPLIED),
    OwnFunction(chained, (pa.string(), pa.list_(pa.int64())), pa.int64(), CHAINED),
    OwnFunction(summed, (pa.int64(), pa.float64()), pa.int64(), SUMMED),
)
