"""Divide decimals with 16 digits after the point, and refuse a zero below doubles.

DataFusion adds 4 digits to those of the dividend, and returns infinity or no number for a division of doubles by zero.
"""

from typing import Final

import pyarrow as pa

from flightllm.functions.divisors import DIVISOR
from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.passes.exact_numbers import decimal_of, is_inexact
from flightllm.sql.passes.guarded_zeros import guarded_zeros
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, expressions_of, function_name, is_double, is_number

_KEPT: Final = frozenset({"sum", "min", "max", "abs", "coalesce", "nullif", "greatest", "least"})
"""Functions that return a decimal for decimals."""
_COLUMNS: Final = frozenset({"Identifier", "CompoundIdentifier", "Cast"})
_OPERATORS: Final = frozenset({"Plus", "Minus", "Modulo", "Multiply"})
_OF_LITERALS: Final = pa.decimal128(38, 10)
"""The type that a column of literals with a point or an exponent seems to have."""
_SINGLE: Final = 32
"""The bits of a number of single precision."""
_ARITHMETIC: Final = _OPERATORS | {"Divide"}


def numeric_division(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `budget / 3` as a quotient of `CAST(budget AS DECIMAL(38, 13))`, rounded to 16 digits.

    `100 * count(*) / sum(n)` of a column BIGINT changes, too: its sum is a decimal. A dividend of which the exact type
    is unknown, such as a sum with `0.5`, stays. The divisor of a quotient or a rest of doubles is checked, unless it is
    another literal than 0 or `nullif(…, 0)`; for conditions, see `guarded_zeros`.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "BinaryOp" or fields["op"] not in {"Divide", "Modulo"}:
            return node
        sides = fields["left"], fields["right"]
        given = [types.of(one) for one in sides]
        if any(_is_real(one, types) for one in sides) and all(
            _is_binary(side, types) or is_number(type_) for side, type_ in zip(sides, given, strict=True)
        ):
            return _checked(node, is_single=all(_is_narrow(one) for one in given))
        if fields["op"] == "Modulo":
            return _apart(node, fields["right"]) if given[1] == _OF_LITERALS else node
        if not all(_is_exact(one, types) for one in sides) or not all(map(_is_whole_or_decimal, given)):
            return node
        if not any(one is not None and pa.types.is_decimal(one) for one in given):
            return node
        wide = "CAST(CAST(l AS DECIMAL(38, 13)) / r AS DECIMAL(38, 16))"
        quotient = written(wide, l=fields["left"], r=fields["right"])
        return _apart(quotient, fields["right"]) if given[1] == _OF_LITERALS else quotient

    after = tree.rebuilt(change)
    if after is tree:
        return tree
    return Tree(after.sql, guarded_zeros(after.root, columns_of))


def _is_real(value: Json, types: ExpressionTypes) -> bool:
    """Return whether DataFusion computes a value as a double, and no decimal is part of it."""
    inner = unnested(value)
    if decimal_of(inner) is not None:
        return is_inexact(inner)
    fields = body(inner)
    if is_double(types.of(inner)):
        return True
    if kind(inner) == "Function" and function_name(fields) == "avg":
        return all(_is_binary(one, types) for one in arguments(fields))
    if kind(inner) != "BinaryOp" or fields["op"] not in _ARITHMETIC:
        return False
    sides = fields["left"], fields["right"]
    return all(_is_binary(one, types) for one in sides) and any(_is_real(one, types) for one in sides)


def _is_binary(value: Json, types: ExpressionTypes) -> bool:
    """Return whether a value is a whole number or a double."""
    return _is_whole(value, types) or _is_real(value, types)


def _apart(quotient: Json, divisor: Json) -> Json:
    """Return a quotient whose divisor is checked apart, because it can be a double: a column of literals in VALUES."""
    if kind(unnested(divisor)) not in {"Identifier", "CompoundIdentifier"}:
        return quotient
    return written(f"CASE WHEN {DIVISOR}(CAST(r AS DOUBLE)) IS NOT NULL THEN q END", q=quotient, r=divisor)


def _checked(node: Node, *, is_single: bool) -> Json:
    """Return a quotient or a rest whose divisor is checked; the same object for a divisor that is never 0."""
    fields = body(node)
    divisor = unnested(fields["right"])
    while kind(divisor) == "Cast":
        divisor = unnested(body(divisor)["expr"])
    number = decimal_of(divisor)
    if number or (kind(divisor) == "Function" and function_name(body(divisor)) == "nullif"):
        return node
    form = f"CAST({DIVISOR}(CAST(r AS DOUBLE)) AS REAL)" if is_single else f"{DIVISOR}(CAST(r AS DOUBLE))"
    return {"BinaryOp": {**fields, "right": written(form, r=fields["right"])}}


def _is_narrow(found: Type) -> bool:
    """Return whether values of a type have 32 bits; NULL without a type has no width."""
    return found is not None and pa.types.is_primitive(found) and found.bit_width == _SINGLE


def _is_whole_or_decimal(given: Type) -> bool:
    return given is not None and bool(pa.types.is_integer(given) or pa.types.is_decimal(given))


def _is_exact(value: Json, types: ExpressionTypes) -> bool:
    """Return whether DataFusion computes a value as a decimal of few digits after the point, or as a whole number."""
    inner = unnested(value)
    name, fields = kind(inner), body(inner)
    if _is_whole(inner, types) or name in _COLUMNS:
        return True
    match name:
        case "Function" if function_name(fields) in _KEPT:
            return all(_is_exact(one, types) for one in arguments(fields))
        case "UnaryOp":
            return _is_exact(fields["expr"], types)
        case "BinaryOp" if fields["op"] in _OPERATORS:
            sides = fields["left"], fields["right"]
            # Each factor adds its digits after the point to those of a product.
            whole = fields["op"] != "Multiply" or any(_is_whole(one, types) for one in sides)
            return whole and all(_is_exact(one, types) for one in sides)
        case "Subquery":
            columns = expressions_of(fields["body"])
            return len(columns) == 1 and _is_exact(columns[0], types)
        case _:
            return False


def _is_whole(value: Json, types: ExpressionTypes) -> bool:
    """Return whether DataFusion computes a value as a whole number."""
    inner = unnested(value)
    if decimal_of(inner) is not None:
        return not is_inexact(inner)
    if kind(inner) == "Function" and function_name(body(inner)) == "sum":
        return all(_is_whole(one, types) for one in arguments(body(inner)))
    given = types.of(inner)
    return given is not None and bool(pa.types.is_integer(given))
