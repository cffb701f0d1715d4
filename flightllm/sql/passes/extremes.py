"""Return the value of the row with the greatest or the least key: `max_by`, `min_by`, `arg_max` and `arg_min`."""

from collections.abc import Collection
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

_ORDERS: Final = {
    "max_by": "DESC",
    "arg_max": "DESC",
    "argmax": "DESC",
    "min_by": "ASC",
    "arg_min": "ASC",
    "argmin": "ASC",
}
EXTREMES: Final = frozenset(_ORDERS)
"""The aggregates that the pass rewrites."""


def extremes(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `max_by(a, b)` as `first_value(a ORDER BY b DESC) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)`.

    Raises:
        UnsupportedError: a call has OVER.
    """
    own = own_functions(columns_of)
    return tree.rebuilt(lambda node: _written(node, own))


def _written(node: Node, own: Collection[str]) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in _ORDERS or name in own:
        return node
    given = arguments(fields)
    if fields["over"] is not None:
        raise UnsupportedError(f"{name} cannot be a window function: write first_value(a) OVER (ORDER BY b)")
    if not 2 <= len(given) <= 3:
        return node
    value, key = given[:2]
    rows = "x IS NOT NULL AND k IS NOT NULL" + (" AND f" if fields["filter"] is not None else "")
    condition = {"Nested": fields["filter"]}
    if len(given) == 3:
        first = f"array_slice(array_agg(x ORDER BY k {_ORDERS[name]}) FILTER (WHERE {rows}), 1, n)"
        return written(first, x=value, k=key, f=condition, n=given[2])
    return written(f"first_value(x ORDER BY k {_ORDERS[name]}) FILTER (WHERE {rows})", x=value, k=key, f=condition)
