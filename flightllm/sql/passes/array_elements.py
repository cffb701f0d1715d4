"""Remove and replace all equal elements of an array, as PostgreSQL does: DataFusion stops at the first one."""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

FUNCTIONS: Final = frozenset({"array_remove", "array_replace"})
"""The functions that this pass writes."""


def array_elements(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `array_remove(l, 1)` as `array_remove_all(l, 1)`, and `array_remove(l, NULL)` as `array_compact(l)`.

    A NULL removes the NULLs, also where it is the value of a column. `array_replace` becomes `array_replace_all`.
    """
    return tree.rebuilt(_of_all)


def _of_all(node: Node) -> Json:
    name = function_name(body(node)) if kind(node) == "Function" else ""
    if name not in FUNCTIONS:
        return node
    given = arguments(body(node))
    if name == "array_replace":
        return written("array_replace_all(l, x, y)", l=given[0], x=given[1], y=given[2]) if len(given) == 3 else node
    if len(given) != 2:
        return node
    array, removed = given
    value = body(unnested(removed))["value"] if kind(unnested(removed)) == "Value" else None
    if value == "Null":
        return written("array_compact(l)", l=array)
    if value is not None and kind(value) != "Placeholder":
        return written("array_remove_all(l, x)", l=array, x=removed)
    nulls = "CASE WHEN x IS NULL THEN array_compact(l) ELSE array_remove_all(l, x) END"
    return written(nulls, l=array, x=removed)
