"""Compare intervals by their length, as PostgreSQL does: DataFusion compares months, then days, then the rest.

A month has 30 days and a day 24 hours. The time between two timestamps has no days, so DataFusion finds 8 days shorter
than `interval '1 day'`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, is_query, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, arguments, expressions_of, function_name

_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"})
_EXTREMES: Final = {"min": "ASC", "max": "DESC"}


def intervals(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `b - a > interval '1 day'` as a comparison of microseconds; also in IN, CASE, ORDER BY, min and more.

    Raises:
        UnsupportedError: a clause that has no such form compares intervals, such as GROUP BY.
    """
    writer = _Writer(tree, ExpressionTypes(tree.root, columns_of))
    return tree.rebuilt(writer.changed)


class _Writer:
    """Writes the comparisons of one statement."""

    def __init__(self, tree: Tree, types: ExpressionTypes) -> None:
        self._tree = tree
        self._types = types
        self._is_interval = types.is_interval
        self._writers: Mapping[str, Callable[[str, Json], Node | None]] = {
            "BinaryOp": self._operator,
            "IsDistinctFrom": self._sides,
            "IsNotDistinctFrom": self._sides,
            "Between": self._between,
            "InList": self._in_list,
            "InSubquery": self._in_query,
            "AnyOp": self._quantified,
            "AllOp": self._quantified,
            "Case": self._case,
            "Function": self._function,
            "WindowSpec": self._window,
            "Expressions": self._keys,
            "OrderBy": self._order,
            "Select": self._select,
            "SetOperation": self._set_operation,
            "Using": self._using,
        }

    def changed(self, node: Node) -> Json:
        """Return a node whose own comparisons are of microseconds; the same object if it has no such comparison."""
        name, fields = kind(node), body(node)
        write = self._writers.get(name)
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

    # --- the length of an interval

    def _length(self, value: Json) -> Json:
        """Return the microseconds of an interval, or of a value that is compared with one."""
        given = value if self._is_interval(value) else written("CAST(v AS INTERVAL)", v=value)
        return written("CAST(round(date_part('epoch', v) * 1000000) AS BIGINT)", v=given)

    def _any(self, *values: Json) -> bool:
        return any(map(self._is_interval, values))

    # --- predicates

    def _operator(self, name: str, fields: Json) -> Node | None:
        if fields["op"] not in _COMPARISONS or not self._any(fields["left"], fields["right"]):
            return None
        return {name: {**fields, "left": self._length(fields["left"]), "right": self._length(fields["right"])}}

    def _sides(self, name: str, fields: Json) -> Node | None:
        return {name: list(map(self._length, fields))} if self._any(*fields) else None

    def _between(self, name: str, fields: Json) -> Node | None:
        values = {key: fields[key] for key in ("expr", "low", "high")}
        if not self._any(*values.values()):
            return None
        return {name: {**fields, **{key: self._length(value) for key, value in values.items()}}}

    def _in_list(self, name: str, fields: Json) -> Node | None:
        if not self._any(fields["expr"], *fields["list"]):
            return None
        listed = list(map(self._length, fields["list"]))
        return {name: {**fields, "expr": self._length(fields["expr"]), "list": listed}}

    def _in_query(self, name: str, fields: Json) -> Node | None:
        if not self._any(fields["expr"], {"Subquery": fields["subquery"]}):
            return None
        query = self._lengths(fields["subquery"], "IN")
        return {name: {**fields, "expr": self._length(fields["expr"]), "subquery": query}}

    def _quantified(self, name: str, fields: Json) -> Node | None:
        if not self._any(fields["left"], fields["right"]):
            return None
        if kind(fields["right"]) != "Subquery":
            raise self._refused("ANY and ALL over a list", fields)
        query = {"Subquery": self._lengths(body(fields["right"]), "ANY and ALL")}
        return {name: {**fields, "left": self._length(fields["left"]), "right": query}}

    def _lengths(self, query: Json, what: str) -> Json:
        """Return a query of one column with the microseconds of its intervals."""
        items = expressions_of(query["body"])
        if kind(query["body"]) != "Select" or len(items) != 1:
            raise self._refused(f"{what} with VALUES, a star or a set operation", query)
        select = {**body(query["body"]), "projection": [{"UnnamedExpr": self._length(items[0])}]}
        return {**query, "body": {"Select": select}}

    def _case(self, name: str, fields: Json) -> Node | None:
        operand, conditions = fields["operand"], fields["conditions"]
        if operand is None or not self._any(operand, *(one["condition"] for one in conditions)):
            return None
        compared = [{**one, "condition": self._length(one["condition"])} for one in conditions]
        return {name: {**fields, "operand": self._length(operand), "conditions": compared}}

    # --- functions and windows

    def _function(self, name: str, fields: Json) -> Node | None:
        values, function = arguments(fields), function_name(fields)
        if not self._any(*values):
            return None
        distinct = body(fields["args"])["duplicate_treatment"] == "Distinct"
        if function in _EXTREMES:
            if fields["over"] is not None:
                raise self._refused(f"{function}(…) OVER", fields)
            text = f"first_value(v ORDER BY k {_EXTREMES[function]} NULLS LAST)"
            (value,) = values
            chosen = body(written(text, v=value, k=self._length(value)))
            return {name: {**chosen, "filter": fields["filter"]}}
        if function == "nullif" and len(values) == 2:
            first, second = map(self._length, values)
            either: Node = written("CASE WHEN a = b THEN NULL ELSE v END", a=first, b=second, v=values[0])
            return either
        if function == "count" and distinct:
            given = [{"Unnamed": {"Expr": self._length(value)}} for value in values]
            return {name: {**fields, "args": {"List": {**body(fields["args"]), "args": given}}}}
        if distinct or function in {"greatest", "least"}:
            raise self._refused(f"{function}(…)", fields)
        return None

    def _window(self, name: str, fields: Json) -> Node | None:
        divided, ordered = self._only_lengths(fields["partition_by"]), self._by_length(fields["order_by"])
        if divided is fields["partition_by"] and ordered is fields["order_by"]:
            return None
        return {name: {**fields, "partition_by": divided, "order_by": ordered}}

    # --- clauses

    def _keys(self, name: str, fields: Json) -> Node | None:
        """Write the keys of ORDER BY; those of GROUP BY are lists of expressions."""
        if fields and isinstance(fields[0], dict) and "options" in fields[0]:
            return self._order(name, fields)
        if fields and isinstance(fields[0], list) and self._any(*fields[0]):
            raise self._refused("GROUP BY", fields[0])
        return None

    def _order(self, name: str, fields: Json) -> Node | None:
        ordered = self._by_length(fields)
        return None if ordered is fields else {name: ordered}

    def _by_length(self, keys: Json) -> Json:
        if not self._any(*(key["expr"] for key in keys)):
            return keys
        return [{**key, "expr": self._only_length(key["expr"])} for key in keys]

    def _only_lengths(self, values: Json) -> Json:
        return list(map(self._only_length, values)) if self._any(*values) else values

    def _only_length(self, value: Json) -> Json:
        """Return the microseconds of an interval, and other values as they are."""
        return self._length(value) if self._is_interval(value) else value

    def _by_number(self, query: Json) -> Json:
        """Return a query whose ORDER BY names a column of intervals by its number, with the column's microseconds."""
        order = query["order_by"]
        if not order or kind(order["kind"]) != "Expressions":
            return query
        items, keys = expressions_of(query["body"]), body(order["kind"])
        numbered = [self._numbered(key, items) for key in keys]
        if all(new is old for new, old in zip(numbered, keys, strict=True)):
            return query
        if kind(query["body"]) != "Select":
            raise self._refused("ORDER BY after a set operation", keys)
        return {**query, "order_by": {**order, "kind": {"Expressions": numbered}}}

    def _numbered(self, key: Json, items: list[Json]) -> Json:
        value = body(key["expr"]) if kind(key["expr"]) == "Value" else {}
        number = body(value["value"])[0] if value and kind(value["value"]) == "Number" else ""
        place = int(number) if str(number).isdecimal() else 0
        if not 0 < place <= len(items) or not self._is_interval(items[place - 1]):
            return key
        return {**key, "expr": self._length(items[place - 1])}

    def _select(self, name: str, fields: Json) -> Node | None:
        distinct = fields["distinct"]
        if distinct and kind(distinct) != "On" and self._has_intervals({name: fields}):
            raise self._refused("DISTINCT", fields["projection"])
        grouped = fields["group_by"]
        for key in body(grouped)[0] if kind(grouped) == "Expressions" else ():
            numbered = self._numbered({"expr": key}, expressions_of({"Select": fields}))
            if numbered["expr"] is not key:
                raise self._refused("GROUP BY", key)
        if kind(distinct) != "On" or not self._any(*body(distinct)):
            return None
        return {name: {**fields, "distinct": {"On": self._only_lengths(body(distinct))}}}

    def _has_intervals(self, query: Json) -> bool:
        return any(column.type == INTERVAL for column in self._types.columns(query) or ())

    def _set_operation(self, name: str, fields: Json) -> None:
        if fields["op"] == "Union" and str(fields["set_quantifier"]).startswith("All"):
            return
        if self._has_intervals({name: fields}):
            raise self._refused(str(fields["op"]).upper(), fields)

    def _using(self, _: str, fields: Json) -> None:
        if self._any(*(name[-1] for name in fields)):
            raise self._refused("USING", fields)

    def _refused(self, what: str, value: Json) -> UnsupportedError:
        return UnsupportedError(
            f"{what} at {self._tree.position(value)} compares intervals, of which '1 month' and '30 days' must be"
            " equal: write extract(epoch FROM …) in place of the interval"
        )
