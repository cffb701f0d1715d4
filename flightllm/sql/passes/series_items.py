"""Give a row for each value of `generate_series` in the list of SELECT: DataFusion gives one row with a list.

A series of dates has timestamps with a time zone.
"""

from collections.abc import Iterator
from operator import is_
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, name_of, replaced
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.select_shapes import is_aggregate, own_nodes
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import TIMESTAMP, ExpressionTypes, function_name, is_date

_SERIES: Final = "generate_series"
_TAKES_LISTS: Final = frozenset({"unnest", "cardinality", "array_length", "array_to_string"})
"""Functions of a list; with them, DataFusion's list of a series stays."""


def series_items(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT generate_series(1, 3)` as `SELECT unnest(generate_series(1, 3))`, also inside an expression.

    The dates of a series become timestamps with a time zone, also in FROM.

    Raises:
        UnsupportedError: an aggregate has a series.
    """
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _with_rows(_zoned(node, types), tree))


def _zoned(node: Node, types: ExpressionTypes) -> Node:
    """Return a series with its dates as timestamps with a time zone; the same object for other nodes."""
    fields = body(node)
    given = fields.get("args") if kind(node) in {"Function", "Table"} else None
    if not given or name_of(body(fields["name"][-1])) != _SERIES:
        return node
    listed = given if isinstance(given, list) else body(given)["args"] if kind(given) else given["args"]
    after = [_zoned_argument(one, types) for one in listed]
    if all(map(is_, after, listed)) or any(types.of(one) == TIMESTAMP for one in map(_expression, listed)):
        return node  # with a plain timestamp, PostgreSQL reads the date as one, too
    if isinstance(given, list):
        args: Json = after
    elif kind(given):
        args = {kind(given): {**body(given), "args": after}}
    else:
        args = {**given, "args": after}
    return {kind(node): {**fields, "args": args}}


def _zoned_argument(argument: Json, types: ExpressionTypes) -> Json:
    value = _expression(argument)
    if not is_date(types.of(value)):
        return argument
    return {"Unnamed": {"Expr": written("CAST(v AS TIMESTAMP WITH TIME ZONE)", v=value)}}


def _expression(argument: Json) -> Json:
    """Return the expression of an argument without a name; None for others."""
    is_value = kind(argument) == "Unnamed" and kind(body(argument)) == "Expr"
    return body(body(argument)) if is_value else None


def _with_rows(node: Node, tree: Tree) -> Json:
    if kind(node) != "Select":
        return node
    items = body(node)["projection"]
    kept = set[int]()
    for found in own_nodes(items):
        if kind(found) == "Function" and function_name(body(found)) in _TAKES_LISTS:
            kept |= {id(series) for series in _series(body(found)["args"])}
        elif is_aggregate(found) and any(True for _ in _series(body(found)["args"])):
            raise UnsupportedError(
                f"the aggregate at {tree.position(found)} has a series: write the series in FROM, as in"
                " FROM generate_series(1, 3) AS s(i)"
            )
    changes = {id(series): written("unnest(l)", l=series) for series in _series(items) if id(series) not in kept}
    return {"Select": {**body(node), "projection": replaced(items, changes)}} if changes else node


def _series(value: Json) -> Iterator[Node]:
    """Yield the series in a value that are in no query inside it."""
    for node in own_nodes(value):
        if kind(node) == "Function" and function_name(body(node)) == _SERIES:
            yield node
