"""Divide decimals with 16 digits after the point: DataFusion adds 4 digits to those of the dividend."""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.passes.exact_numbers import decimal_of
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, expressions_of, function_name

_KEPT: Final = frozenset({"sum", "min", "max", "abs", "coalesce", "nullif", "greatest", "least"})
"""Functions that return a decimal for decimals."""
_COLUMNS: Final = frozenset({"Identifier", "CompoundIdentifier", "Cast"})
_OPERATORS: Final = frozenset({"Plus", "Minus", "Modulo", "Multiply"})


def numeric_division(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `budget / 3` as a quotient of `CAST(budget AS DECIMAL(38, 13))`, rounded to 16 digits.

    `100 * count(*) / sum(n)` of a column BIGINT changes, too: its sum is a decimal. A dividend of which the exact type
    is unknown, such as a sum with `0.5`, stays.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "BinaryOp" or fields["op"] != "Divide":
            return node
        sides = fields["left"], fields["right"]
        given = [types.of(one) for one in sides]
        if not all(_is_exact(one, types) for one in sides) or not all(map(_is_whole_or_decimal, given)):
            return node
        if not any(one is not None and pa.types.is_decimal(one) for one in given):
            return node
        wide = "CAST(CAST(l AS DECIMAL(38, 13)) / r AS DECIMAL(38, 16))"
        return written(wide, l=fields["left"], r=fields["right"])

    return tree.rebuilt(change)


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
    number = decimal_of(inner)
    if number is not None:
        return number.as_tuple().exponent == 0
    if kind(inner) == "Function" and function_name(body(inner)) == "sum":
        return all(_is_whole(one, types) for one in arguments(body(inner)))
    given = types.of(inner)
    return given is not None and bool(pa.types.is_integer(given))
