"""Compute with intervals as PostgreSQL does: DataFusion drops the hours of a date plus an interval."""

from collections.abc import Iterator

from flightllm.functions.interval_parts import WITH_DAYS
from flightllm.sql.nodes import Json, Node, body, kind, name_of, walk
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, is_date, is_number

_INTERVALS = (INTERVAL, BETWEEN_TIMES)
_SERIES = frozenset({"generate_series", "range"})


def interval_arithmetic(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `day + interval '1 hour'` as a sum of a timestamp, and `2 * lasted` as a call of `__interval_times`.

    `-lasted` becomes a difference: DataFusion negates only the first part of an interval.
    """
    types = ExpressionTypes(tree.root, columns_of)
    left_alone = {id(part) for series in _series(tree.root) for part in walk(series)}

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if id(node) in left_alone:
            return node
        if name == "UnaryOp" and fields["op"] == "Minus" and types.of(fields["expr"]) == INTERVAL:
            return {"Nested": written("INTERVAL '0 seconds' - v", v=fields["expr"])}
        if name != "BinaryOp":
            return node
        left, right = types.of(fields["left"]), types.of(fields["right"])
        return _sum(fields, left, right) or _scaled(fields, left, right) or node

    return tree.rebuilt(change)


def _sum(fields: Json, left: Type, right: Type) -> Node | None:
    """Return a date plus or minus an interval; None for other sums."""
    if fields["op"] in {"Plus", "Minus"} and is_date(left) and right in _INTERVALS:
        return {"BinaryOp": {**fields, "left": _at_midnight(fields["left"])}}
    if fields["op"] == "Plus" and is_date(right) and left in _INTERVALS:
        return {"BinaryOp": {**fields, "right": _at_midnight(fields["right"])}}
    if fields["op"] in {"Plus", "Minus"} and {left, right} == set(_INTERVALS):
        sides = {"left": with_days(fields["left"], left), "right": with_days(fields["right"], right)}
        return {"BinaryOp": {**fields, **sides}}
    return None


def _scaled(fields: Json, left: Type, right: Type) -> Json | None:
    """Return an interval times or divided by a number; None for other operators."""
    if fields["op"] == "Multiply" and right in _INTERVALS and is_number(left):
        return _product(with_days(fields["right"], right), fields["left"])
    if fields["op"] == "Multiply" and left in _INTERVALS and is_number(right):
        return _product(with_days(fields["left"], left), fields["right"])
    if fields["op"] == "Divide" and left in _INTERVALS and is_number(right):
        return written("__interval_times(v, 1, n)", v=with_days(fields["left"], left), n=fields["right"])
    return None


def with_days(value: Json, given: Type) -> Json:
    """Return a value of one of the two types of intervals as an interval that counts in days."""
    return written(f"{WITH_DAYS}(CAST(v AS INTERVAL))", v=value) if given == BETWEEN_TIMES else value


def _series(root: Json) -> Iterator[Json]:
    """Yield the arguments of calls that make a series: DataFusion makes no series from a timestamp to a date."""
    for node in walk(root):
        fields = body(node)
        if kind(node) in {"Function", "Table"} and fields.get("args") and name_of(body(fields["name"][-1])) in _SERIES:
            yield fields["args"]


def _at_midnight(day: Json) -> Json:
    return written("CAST(v AS TIMESTAMP)", v=day)


def _product(interval: Json, number: Json) -> Json:
    return written("__interval_times(v, n, 1)", v=interval, n=number)
