"""Round in casts to whole numbers as PostgreSQL does: DataFusion cuts the fraction."""

from typing import Final

import pyarrow as pa

from flightllm.functions.half_even import HALF_EVEN
from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, cast_type, function_name, is_double

CASTS: Final = frozenset({"cast", "try_cast", "safe_cast", "::"})
"""The words and the sign of a cast."""
_INTEGERS: Final = frozenset(
    {"int", "integer", "bigint", "smallint", "tinyint", "int2", "int4", "int8", "mediumint", "unsigned"}
)


def has_integer_cast(text: ParsedText) -> bool:
    """Return whether a text names a type of whole numbers."""
    return not _INTEGERS.isdisjoint(text.words)


def integer_casts(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `CAST(price AS int)` as `CAST(round(price) AS int)`, and of a double as `CAST(__half_even(d) AS int)`.

    Halves of a numeric are rounded away from zero, halves of a double to the even neighbor. The elements of
    `ARRAY[1.5]::int[]` are rounded, too.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        if kind(node) != "Cast":
            return node
        fields = body(node)
        target = cast_type(fields["data_type"])
        value = fields["expr"]
        if target is not None and pa.types.is_list(target) and pa.types.is_integer(target.value_type):
            value = _rounded_elements(value, types)
        elif target is not None and pa.types.is_integer(target):
            value = rounded(value, types)
        return node if value is fields["expr"] else {"Cast": {**fields, "expr": value}}

    return tree.rebuilt(change)


def round_calls(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `round(d)` of a double as `__half_even(d)`."""
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        if kind(node) != "Function" or not _is_round(node):
            return node
        (value,) = arguments(body(node))
        return rounded(value, types) if is_double(types.of(value)) else node

    return tree.rebuilt(change)


def rounded(value: Json, types: ExpressionTypes) -> Json:
    """Return a value rounded to a whole number. A whole number, and a value of unknown type, stay the same object."""
    given = types.of(value)
    if _is_round(unnested(value)):
        return value
    if is_double(given):
        return written(f"{HALF_EVEN}(v)", v=value)
    return written("round(v)", v=value) if given is not None and pa.types.is_decimal(given) and given.scale else value


def _rounded_elements(value: Json, types: ExpressionTypes) -> Json:
    if kind(value) != "Array":
        return value
    elements = [rounded(one, types) for one in body(value)["elem"]]
    same = all(new is old for new, old in zip(elements, body(value)["elem"], strict=True))
    return value if same else {"Array": {**body(value), "elem": elements}}


def _is_round(node: Json) -> bool:
    """Return whether a node calls `round` with one argument."""
    return kind(node) == "Function" and function_name(body(node)) == "round" and len(arguments(body(node))) == 1
