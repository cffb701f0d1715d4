"""Write comparisons of values by a key of each value, for types that DataFusion orders in another way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, is_query, kind, new_identifier, walk
from flightllm.sql.query_columns import TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, expressions_of, function_name

ORDERS: Final = frozenset({"Lt", "LtEq", "Gt", "GtEq"})
GROUPINGS: Final = frozenset({"Rollup", "Cube", "GroupingSets", "Tuple"})
"""The kinds of nodes in GROUP BY that hold several keys."""
_LISTS: Final = frozenset({"array_agg", "string_agg", "listagg", "json_agg", "jsonb_agg", "first_value", "last_value"})
"""Aggregates with an order that return other values than those of the order."""
_EXTREMES: Final = {"min": "ASC", "max": "DESC"}
_ALL_ROWS: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_GREATER: Final = {"greatest": ">=", "least": "<="}


class KeyedType(Protocol):
    """A kind of types whose values are compared by a key."""

    @property
    def operators(self) -> frozenset[str]:
        """Return the comparisons that need the key."""

    @property
    def said(self) -> str:
        """Return what an error says of a clause that cannot have the key."""

    def has(self, given: Type) -> bool:
        """Return whether values of a type need the key."""

    def key(self, tree: Tree, value: Json, types: Sequence[Type]) -> Json:
        """Return the key of a value that is compared with values of some types; the first type is its own.

        Raises:
            UnsupportedError: the values have no key.
        """


class KeyWriter:
    """Writes the comparisons of one statement."""

    def __init__(self, tree: Tree, columns_of: TableColumns, keyed: KeyedType) -> None:
        self._tree = tree
        self.types = ExpressionTypes(tree.root, columns_of)
        self._own = own_functions(columns_of)
        self._keyed = keyed
        self._writers: Mapping[str, Callable[[str, Json], Node | None]] = {
            "BinaryOp": self._operator,
            "Between": self._between,
            "AnyOp": self._quantified,
            "AllOp": self._quantified,
            "Function": self.function,
            "WindowSpec": self.window,
            "Expressions": self.expressions,
            "OrderBy": self._order,
            "Select": self.select,
            **self.more_writers(),
        }

    def more_writers(self) -> Mapping[str, Callable[[str, Json], Node | None]]:
        """Return the writers of further kinds of nodes."""
        return {}

    def changed(self, node: Node) -> Json:
        """Return a node whose own comparisons are of keys; the same object if it has no such comparison."""
        name, fields = kind(node), body(node)
        write = self._writers.get(name)
        if name == "Select" and "projection" not in fields:  # the privilege in GRANT and REVOKE
            return node
        if write is not None:
            return write(name, fields) or node
        if is_query(fields):
            after = self._by_number(fields)
            return node if after is fields else {name: after}
        if not isinstance(fields, dict):
            return node
        queries = {key: self._by_number(one) for key, one in fields.items() if is_query(one)}
        same = all(fields[key] is query for key, query in queries.items())
        return node if same else {name: {**fields, **queries}}

    # --- keys

    def any(self, *values: Json) -> bool:
        """Return whether one of the values needs the key."""
        return any(self._keyed.has(self.types.of(value)) for value in values)

    def keys(self, *values: Json) -> list[Json]:
        """Return the keys of values that are compared with each other."""
        types = [self.types.of(value) for value in values]
        return [self._keyed.key(self._tree, value, [own, *types]) for value, own in zip(values, types, strict=True)]

    def only_key(self, value: Json) -> Json:
        """Return the key of a value that needs it, and other values as they are."""
        return self.keys(value)[0] if self.any(value) else value

    def refused(self, what: str, value: Json) -> UnsupportedError:
        """Return the error that a clause cannot have the key."""
        return UnsupportedError(f"{what} at {self._tree.position(value)} {self._keyed.said}")

    # --- predicates

    def _operator(self, name: str, fields: Json) -> Node | None:
        if fields["op"] not in self._keyed.operators or not self.any(fields["left"], fields["right"]):
            return None
        left, right = self.keys(fields["left"], fields["right"])
        return {name: {**fields, "left": left, "right": right}}

    def _between(self, name: str, fields: Json) -> Node | None:
        sides = ("expr", "low", "high")
        values = [fields[side] for side in sides]
        if not self.any(*values):
            return None
        return {name: {**fields, **dict(zip(sides, self.keys(*values), strict=True))}}

    def _quantified(self, name: str, fields: Json) -> Node | None:
        left, right = fields["left"], fields["right"]
        compared = (left, right) if kind(right) == "Subquery" else (left,)
        if fields["compare_op"] not in self._keyed.operators or not self.any(*compared):
            return None
        if kind(right) != "Subquery":
            raise self.refused("ANY and ALL over a list", fields)
        key, query = self.keys_of_query(left, body(right), "ANY and ALL")
        return {name: {**fields, "left": key, "right": {"Subquery": query}}}

    def keys_of_query(self, value: Json, query: Json, what: str) -> tuple[Json, Json]:
        """Return the key of a value, and a query of one column with the keys that the value is compared with."""
        items = expressions_of(query["body"])
        if kind(query["body"]) != "Select" or len(items) != 1:
            raise self.refused(f"{what} with VALUES, a star or a set operation", query)
        key, item = self.keys(value, items[0])
        select = {**body(query["body"]), "projection": [{"UnnamedExpr": item}]}
        return key, {**query, "body": {"Select": select}}

    # --- functions and windows

    def function(self, name: str, fields: Json) -> Node | None:
        """Write a call that compares its arguments."""
        values, function = arguments(fields), function_name(fields)
        keys = fields.get("within_group") or []  # a function in FROM lacks the field
        ordered = self._by_key(keys)
        if ordered is not keys and (function not in _LISTS or not values):
            raise self.refused(f"{function}() WITHIN GROUP", fields)
        if ordered is not keys:
            return {name: {**fields, "within_group": ordered}}
        if (function not in _EXTREMES and function not in _GREATER) or not self.any(*values):
            return None
        if changes_per_call(values, self._own):
            raise self.refused(f"{function}(…) of an AI call", fields)  # a model must not be asked twice
        if function in _GREATER:
            return self._greatest(_GREATER[function], values)
        order = f"ORDER BY k {_EXTREMES[function]} NULLS LAST"
        (value,) = values
        given = {"v": value, "k": self.only_key(value)}
        if fields["over"] is None:
            return {name: {**body(written(f"first_value(v {order})", **given)), "filter": fields["filter"]}}
        window = body(fields["over"])
        if fields["filter"] or window["order_by"] or window["window_frame"]:
            raise self.refused(f"{function}(…) OVER with an order, a frame or FILTER", fields)
        chosen = body(written(f"first_value(v) OVER ({order} {_ALL_ROWS})", **given))
        over = {**body(chosen["over"]), "partition_by": window["partition_by"]}
        return {name: {**chosen, "over": {"WindowSpec": over}}}

    def _greatest(self, operator: str, values: Sequence[Json]) -> Node:
        found, *others = zip(values, self.keys(*values), strict=True)
        for value, key in others:
            given = {"a": found[0], "b": value, "x": found[1], "y": key}
            kept = f"CASE WHEN b IS NULL OR x {operator} y THEN"
            found = tuple(written(f"{kept} {one} ELSE {other} END", **given) for one, other in (("a", "b"), ("x", "y")))
        node: Node = found[0]
        return node

    def window(self, name: str, fields: Json) -> Node | None:
        """Write the ORDER BY of a window."""
        ordered = self._by_key(fields["order_by"])
        return None if ordered is fields["order_by"] else {name: {**fields, "order_by": ordered}}

    # --- clauses

    def expressions(self, name: str, fields: Json) -> Node | None:
        """Write the keys of ORDER BY; those of GROUP BY are lists of expressions."""
        is_order = fields and isinstance(fields[0], dict) and "options" in fields[0]
        return self._order(name, fields) if is_order else None

    def _order(self, name: str, fields: Json) -> Node | None:
        ordered = self._by_key(fields)
        return None if ordered is fields else {name: ordered}

    def _by_key(self, keys: Json) -> Json:
        if not self.any(*(key["expr"] for key in keys)):
            return keys
        return [{**key, "expr": self.only_key(key["expr"])} for key in keys]

    def only_keys(self, values: Json) -> Json:
        """Return values with the keys of those that need one; the same object if none needs it."""
        return list(map(self.only_key, values)) if self.any(*values) else values

    def _by_number(self, query: Json) -> Json:
        """Return a query whose ORDER BY has the key of a column that it names by number."""
        order = query["order_by"]
        if not order or kind(order["kind"]) != "Expressions":
            return query
        keys = body(order["kind"])
        found = [self._numbered(key["expr"], query["body"]) for key in keys]
        if not any(found):
            return query
        numbered = [key if new is None else {**key, "expr": new} for key, new in zip(keys, found, strict=True)]
        return {**query, "order_by": {**order, "kind": {"Expressions": numbered}}}

    def _numbered(self, number: Json, query: Json) -> Json | None:
        """Return the key of the column of a query that a number means; None for another value."""
        place = self.keyed_place(number, query)
        if not place:
            return None
        items, columns = expressions_of(query), self.types.columns(query) or []
        in_sets = any(kind(one) == "Function" and function_name(body(one)) == "grouping" for one in walk(items))
        if items and kind(query) == "Select" and not in_sets:  # DataFusion computes grouping(…) once
            return self.only_key(items[place - 1])
        name, given = columns[place - 1]
        if [column.name for column in columns].count(name) > 1:
            raise self.refused("ORDER BY a number", number)
        column = {"Identifier": new_identifier(name)}
        return self._keyed.key(self._tree, column, [given])

    def keyed_place(self, number: Json, query: Json) -> int:
        """Return the number of a column of a query that needs the key; 0 for another value."""
        value = body(number) if kind(number) == "Value" else {}
        digits = str(body(value["value"])[0]) if value and kind(value["value"]) == "Number" else ""
        place = int(digits) if digits.isdecimal() else 0
        columns = self.types.columns(query) or []
        return place if 0 < place <= len(columns) and self._keyed.has(columns[place - 1].type) else 0

    def select(self, name: str, fields: Json) -> Node | None:
        """Write the keys of DISTINCT ON, which those of ORDER BY must repeat."""
        distinct = fields["distinct"]
        if kind(distinct) != "On" or not self.any(*body(distinct)):
            return None
        return {name: {**fields, "distinct": {"On": self.only_keys(body(distinct))}}}

    def has_keyed(self, query: Json) -> bool:
        """Return whether a column of a query needs the key."""
        return any(self._keyed.has(column.type) for column in self.types.columns(query) or ())


def grouped_keys(keys: Json) -> Iterator[Json]:
    """Yield the expressions of a GROUP BY, also those in ROLLUP, CUBE and GROUPING SETS."""
    todo = list(reversed(keys))
    while todo:
        found = todo.pop()
        if isinstance(found, list | tuple):
            todo.extend(reversed(found))
        elif kind(found) in GROUPINGS:
            todo.append(body(found))
        else:
            yield found
