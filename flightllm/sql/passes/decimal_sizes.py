"""The room that decimals take: DataFusion raises an error for a result that needs more than 38 digits."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from flightllm.sql.nodes import Json, body, kind
from flightllm.sql.passes.exact_numbers import LONGEST, digits_of
from flightllm.sql.types import ExpressionTypes, arguments, function_name

SUMS: Final = frozenset({"Plus", "Minus", "Modulo"})
"""Operators whose result has as many digits after the point as the longer operand."""
ALIKE: Final = frozenset({"coalesce", "nullif", "greatest", "least", "nvl", "ifnull"})
"""Functions whose arguments have one type."""
ROUNDED: Final = frozenset({"round", "trunc", "floor", "ceil", "ceiling"})
"""Functions that return a decimal for a decimal, and read their second argument as a number of digits."""
_KEPT: Final = ALIKE | {"sum", "min", "max", "abs"}
"""Functions that return a decimal for decimals."""
_LEAVES: Final = frozenset({"Identifier", "CompoundIdentifier", "Cast", "Value", "Subquery", "Function"})
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_TOTAL_DIGITS: Final = 10
"""The digits that DataFusion adds for a sum."""
_MOST_DIGITS: Final = 18
"""The most digits after the point of a product."""
_DOUBLE_SCALE: Final = 15
"""The digits after the point that DataFusion gives a double beside a decimal in a comparison."""


class Size(NamedTuple):
    """The digits before and after the point of a type."""

    whole: int
    scale: int


class DecimalSizes:
    """The sizes of the decimals and whole numbers of one statement."""

    def __init__(self, types: ExpressionTypes) -> None:
        self._types = types
        self._known = dict[int, tuple[Json, Size | None]]()
        """The size of each expression by its identity; it stays alive, so no other object has its identity."""

    def of(self, expression: Json) -> Size | None:
        """Return the size of a decimal or a whole number; None for another value, for example a double."""
        todo = [expression]
        while todo:  # a chain of 1,000 operators is deeper than Python's recursion limit
            found = todo[-1]
            if id(found) in self._known:
                todo.pop()
                continue
            operands = _operands(found)
            below = [part for part in operands if id(part) not in self._known]
            if below:
                todo += below
                continue
            todo.pop()
            self._known[id(found)] = found, self._size(found, [self._known[id(part)][1] for part in operands])
        return self._known[id(expression)][1]

    def _size(self, expression: Json, given: Sequence[Size | None]) -> Size | None:
        digits = digits_of(expression)
        if digits is not None:
            return Size(digits[0] - digits[1], digits[1])
        if not given:
            return self._leaf(expression)
        sizes = [one for one in given if one is not None]
        if len(sizes) < len(given):
            return None
        name, fields = kind(expression), body(expression)
        if name == "BinaryOp" and fields["op"] == "Multiply":
            return product(sizes)
        found = common(sizes)
        if name == "Function" and function_name(fields) == "sum":
            return Size(min(found.whole + _TOTAL_DIGITS, LONGEST - found.scale), found.scale)
        return found

    def _leaf(self, expression: Json) -> Size | None:
        given = self._types.of(expression) if kind(expression) in _LEAVES else None
        if given is None:
            return None
        if pa.types.is_decimal(given) and kind(expression) != "Function":
            return Size(given.precision - given.scale, given.scale)
        if pa.types.is_null(given):
            return Size(0, 0)
        return Size(_INTEGER_DIGITS[given.bit_width], 0) if pa.types.is_integer(given) else None


def common(sizes: Sequence[Size]) -> Size:
    """Return the size that holds the values of all sizes; a sum's carry does not count."""
    return Size(max(one.whole for one in sizes), max(one.scale for one in sizes))


def product(sizes: Sequence[Size]) -> Size:
    """Return the size of a product; digits before the point that are beyond a decimal's do not count."""
    scale = sum(one.scale for one in sizes)
    return Size(max(min(sum(one.whole for one in sizes), LONGEST - scale), 0), scale)


def fits(size: Size) -> bool:
    """Return whether a decimal holds all values of a size."""
    return size.whole + size.scale <= LONGEST


def alike_fits(sizes: Sequence[Size]) -> bool:
    """Return whether compared values have as much room as with doubles for the literals, or enough."""
    found = common(sizes)
    return fits(found) or found.scale <= _DOUBLE_SCALE


def product_fits(other: Size, literal: Size) -> bool:
    """Return whether a product with a literal leaves room for its digits."""
    return other.scale + literal.scale <= _MOST_DIGITS and other.whole + literal.whole + literal.scale <= LONGEST


def _operands(expression: Json) -> Sequence[Json]:
    """Return the expressions of which a size follows; empty for a literal, a column and an unknown expression."""
    name = kind(expression)
    fields: Json = body(expression) if name else None
    match name:
        case "Nested":
            return (fields,)
        case "UnaryOp" if fields["op"] in {"Minus", "Plus"}:
            return (fields["expr"],)
        case "Ceil" | "Floor":
            return (fields["expr"],)
        case "BinaryOp" if fields["op"] in SUMS | {"Multiply"}:
            return (fields["left"], fields["right"])
        case "Function" if function_name(fields) in _KEPT:
            return arguments(fields)
        case "Function" if function_name(fields) in ROUNDED:
            return arguments(fields)[:1]
        case "Case":
            other = () if fields["else_result"] is None else (fields["else_result"],)
            return (*(one["result"] for one in fields["conditions"]), *other)
        case _:
            return ()
