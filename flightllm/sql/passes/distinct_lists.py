"""Order the values that `array_agg(DISTINCT x)` and `string_agg(DISTINCT x, ',')` collect.

PostgreSQL sorts to find the different values, so its lists are in order. DataFusion's lists differ from run to run.

Beside an aggregate with another order, DataFusion gives such a list either order, and it refuses two orders of
`string_agg`. So a query with several orders sorts its lists after the aggregates.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

FUNCTIONS: Final = frozenset({"array_agg", "string_agg"})
"""The aggregates that collect values."""


def can_have_orders(text: ParsedText) -> bool:
    """Return whether a text can have a list of different values, or two orders of `string_agg`."""
    return "distinct" in text.words or {"string_agg", "order"} <= text.words


def distinct_lists(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `array_agg(DISTINCT x)` as `array_agg(DISTINCT x ORDER BY x)`.

    If a query has several orders, `array_agg(DISTINCT x ORDER BY x DESC)` becomes
    `array_sort(array_agg(DISTINCT x), 'DESC', 'NULLS FIRST')`, and `string_agg(x, ',' ORDER BY y)` becomes
    `array_to_string(array_agg(x ORDER BY y) FILTER (WHERE x IS NOT NULL), ',')`.

    Raises:
        SqlError: different values have an order by something else, and the query has several orders.
        UnsupportedError: a query with several orders has different intervals, lists or structs.
    """
    if len({order for node in walk(tree.root) if (order := _order(node)) is not None}) > 1:
        writer = _Writer(tree, ExpressionTypes(tree.root, columns_of))
        tree = tree.rebuilt(writer.changed)
    return tree.rebuilt(_ordered)


@dataclass(frozen=True, slots=True)
class _List:
    """The parts of an aggregate that collects values."""

    fields: Json
    given: list[Json]
    is_distinct: bool
    keys: tuple[Json, ...]
    directions: tuple[tuple[bool, bool], ...]
    """Whether each key descends, and whether its NULLs come first."""


def _list(node: Node) -> _List | None:
    """Return the parts of an aggregate with an order or different values, None for another node."""
    fields = body(node)
    if kind(node) != "Function" or function_name(fields) not in FUNCTIONS or fields["over"]:
        return None
    given = arguments(fields)
    listed = body(fields["args"]) if given else {"clauses": [], "duplicate_treatment": None}
    if any(kind(one) != "OrderBy" for one in listed["clauses"]):
        return None
    keys = [key for clause in listed["clauses"] for key in body(clause)]
    is_distinct = listed["duplicate_treatment"] == "Distinct"
    if not given or not (is_distinct or keys):
        return None
    return _List(fields, given, is_distinct, tuple(key["expr"] for key in keys), tuple(map(_direction, keys)))


def _direction(key: Json) -> tuple[bool, bool]:
    descends, nulls_first = key["options"]["asc"] is False, key["options"]["nulls_first"]
    return descends, descends if nulls_first is None else nulls_first


def _order(node: Node) -> tuple[object, ...] | None:
    """Return the order of the values of an aggregate, None for another node."""
    one = _list(node)
    if one is not None and not one.keys:
        return text_of(one.given[0]), (False, False)
    fields = body(node)
    if kind(node) != "Function" or kind(fields["args"]) != "List" or fields["over"]:
        return None
    clauses = [clause for clause in body(fields["args"])["clauses"] if kind(clause) == "OrderBy"]
    keys = [key for clause in clauses for key in body(clause)]
    return tuple((text_of(key["expr"]), _direction(key)) for key in keys) or None


class _Writer:
    """Writes the lists of a query that has several orders."""

    def __init__(self, tree: Tree, types: ExpressionTypes) -> None:
        self._tree = tree
        self._types = types

    def changed(self, node: Node) -> Json:
        """Return a list in its own order; the same object for another node."""
        one = _list(node)
        if one is None:
            return node
        is_text = function_name(one.fields) == "string_agg"
        if not is_text and not one.is_distinct:
            return node  # DataFusion sorts each of these by itself
        condition, value = one.fields["filter"], one.given[0]
        if is_text:
            condition = written("x IS NOT NULL AND (c)" if condition else "x IS NOT NULL", x=value, c=condition)
        listed = body(one.fields["args"])
        made = {"List": {**listed, "args": listed["args"][:1], "clauses": [] if one.is_distinct else listed["clauses"]}}
        name = body(written("array_agg(x)"))["name"]
        values: Json = {"Function": {**one.fields, "name": name, "args": made, "filter": condition}}
        if one.is_distinct:
            values = self._sorted(node, one, values)
        return written("array_to_string(l, s)", l=values, s=one.given[1]) if is_text else values

    def _sorted(self, node: Node, one: _List, values: Json) -> Json:
        """Return values in the order of a list."""
        place = f"{function_name(one.fields)}(DISTINCT …) at {self._tree.position(node)}"
        if one.keys and text_of(one.keys[0]) != text_of(one.given[0]):
            raise SqlError(f"{place} has an order by another expression: order by its argument")
        type_ = self._types.of(one.given[0])
        if self._types.is_interval(one.given[0]) or (type_ is not None and pa.types.is_nested(type_)):
            raise UnsupportedError(
                f"{place} collects intervals, lists or structs beside another order: write each aggregate in a"
                " subquery of its own"
            )
        descends, nulls_first = one.directions[0] if one.keys else (False, False)
        order = f"'{'DESC' if descends else 'ASC'}', 'NULLS {'FIRST' if nulls_first else 'LAST'}'"
        return written(f"array_sort(l, {order})", l=values)


def _ordered(node: Node) -> Json:
    one = _list(node)
    if one is None or not one.is_distinct or one.keys:
        return node
    key = {"expr": one.given[0], "options": {"asc": None, "nulls_first": None}, "with_fill": None}
    listed = {**body(one.fields["args"]), "clauses": [{"OrderBy": [key]}]}
    return {"Function": {**one.fields, "args": {"List": listed}}}
