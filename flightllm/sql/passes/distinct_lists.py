"""Order the values that `array_agg(DISTINCT x)` and `string_agg(DISTINCT x, ',')` collect.

PostgreSQL sorts to find the different values, so its lists are in order. DataFusion's lists differ from run to run.
"""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import arguments, function_name

FUNCTIONS: Final = frozenset({"array_agg", "string_agg"})
"""The aggregates that collect values."""


def distinct_lists(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `array_agg(DISTINCT x)` as `array_agg(DISTINCT x ORDER BY x)`."""
    return tree.rebuilt(_ordered)


def _ordered(node: Node) -> Json:
    if kind(node) != "Function" or function_name(body(node)) not in FUNCTIONS:
        return node
    given = arguments(body(node))
    listed = body(body(node)["args"]) if given else {"duplicate_treatment": None}
    if listed["duplicate_treatment"] != "Distinct" or listed["clauses"] or body(node)["over"]:
        return node
    key = {"expr": given[0], "options": {"asc": None, "nulls_first": None}, "with_fill": None}
    clauses = [{"OrderBy": [key]}]
    return {"Function": {**body(node), "args": {"List": {**listed, "clauses": clauses}}}}
