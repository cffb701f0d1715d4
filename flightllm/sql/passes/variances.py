"""Give the variance of one NaN or infinite value as NaN, as PostgreSQL does: DataFusion gives 0 for any one value."""

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, other_aggregate

VARIANCES: Final = frozenset({"var_pop", "stddev_pop"})
"""The aggregates that have a value for one row."""


def variances(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `var_pop(x)` of doubles as `var_pop(x) + sum(0 * x)`, which is NaN if a value is not finite."""
    types = ExpressionTypes(tree.root, columns_of)
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _with_nan(types, node, own))


def _with_nan(types: ExpressionTypes, node: Node, own: Collection[str]) -> Json:
    if kind(node) != "Function" or function_name(body(node)) not in VARIANCES:
        return node
    given = arguments(body(node))
    found = types.of(given[0]) if len(given) == 1 else None
    if found is None or not pa.types.is_floating(found) or changes_per_call(given, own):
        return node
    total = other_aggregate("sum", written("0 * v", v={"Nested": given[0]}), node)
    return {"Nested": written("v + s", v=node, s=total)}
