"""Divide decimals with 16 digits after the point: DataFusion adds 4 digits to those of the dividend."""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.passes.exact_numbers import decimal_of
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_KEPT: Final = frozenset({"sum", "min", "max", "abs", "coalesce", "nullif"})
"""Functions that return a decimal for decimals."""
_COLUMNS: Final = frozenset({"Identifier", "CompoundIdentifier", "Cast"})


def numeric_division(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `budget / 3` as a quotient of `CAST(budget AS DECIMAL(38, 13))`, rounded to 16 digits.

    A dividend of which the exact type is unknown, such as a sum with `0.5`, stays.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "BinaryOp" or fields["op"] != "Divide":
            return node
        sides = fields["left"], fields["right"]
        given = [types.of(one) for one in sides]
        if not all(map(_is_exact, sides)) or not all(one is not None and _is_whole_or_decimal(one) for one in given):
            return node
        if not any(one is not None and pa.types.is_decimal(one) for one in given):
            return node
        wide = "CAST(CAST(l AS DECIMAL(38, 13)) / r AS DECIMAL(38, 16))"
        return written(wide, l=fields["left"], r=fields["right"])

    return tree.rebuilt(change)


def _is_whole_or_decimal(given: pa.DataType) -> bool:
    return bool(pa.types.is_integer(given) or pa.types.is_decimal(given))


def _is_exact(value: Json) -> bool:
    """Return whether DataFusion computes a value as a decimal or a whole number."""
    inner = unnested(value)
    name = kind(inner)
    if name == "Function" and function_name(body(inner)) in _KEPT:
        return all(map(_is_exact, arguments(body(inner))))
    number = decimal_of(inner)
    return name in _COLUMNS or (number is not None and number.as_tuple().exponent == 0)
