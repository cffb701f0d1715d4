"""Give `lag` and `lead` PostgreSQL's offsets and defaults.

DataFusion casts a default to the type of the first argument:
`lag(count, 1, 0.5)` gives 0 before the first row, and 0.5 in PostgreSQL. DataFusion takes the offset NULL for 0.
"""

from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, other_aggregate

FUNCTIONS: Final = frozenset({"lag", "lead"})
"""The window functions that have a default."""


def offset_defaults(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `lag(count, 1, 0.5)` so that its first argument has the type that fits both values.

    The result is `lag(CASE WHEN true THEN count ELSE 0.5 END, 1, 0.5)`. `lag(count, NULL)` is NULL.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        if kind(node) != "Function" or function_name(body(node)) not in FUNCTIONS:
            return node
        given = arguments(body(node))
        if len(given) > 1 and _is_null(given[1]):
            return written("CASE WHEN false THEN v END", v=other_aggregate("lag", given[0], node))
        if len(given) != 3 or not _is_cut(types.of(given[0]), types.of(given[2])):
            return node
        value = written("CASE WHEN true THEN v ELSE d END", v=given[0], d=given[2])
        listed = body(body(node)["args"])
        first, *others = listed["args"]
        changed = [{"Unnamed": {"Expr": value}}, *others] if kind(first) == "Unnamed" else listed["args"]
        return {"Function": {**body(node), "args": {"List": {**listed, "args": changed}}}}

    return tree.rebuilt(change)


def _is_null(value: Json) -> bool:
    """Return whether a value is NULL, also as a type."""
    while kind(value) in {"Nested", "Cast"}:
        value = body(value) if kind(value) == "Nested" else body(value)["expr"]
    return kind(value) == "Value" and body(value)["value"] == "Null"


def _is_cut(value: Type, default: Type) -> bool:
    """Return whether a cast of a default to the type of a value can lose digits."""
    if default is None or value is None:
        return default is not None and _has_fraction(default)
    if pa.types.is_decimal(value) and pa.types.is_decimal(default):
        return bool(default.scale > value.scale)
    return _has_fraction(default) and (pa.types.is_integer(value) or pa.types.is_decimal(value))


def _has_fraction(given: pa.DataType) -> bool:
    return bool(pa.types.is_floating(given) or pa.types.is_decimal(given))
