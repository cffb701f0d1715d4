"""Compute with intervals as PostgreSQL does: DataFusion drops the hours of a date plus an interval."""

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import BETWEEN_TIMES, INTERVAL, ExpressionTypes, is_date, is_number

_INTERVALS = (INTERVAL, BETWEEN_TIMES)


def interval_arithmetic(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `day + interval '1 hour'` as a sum of a timestamp, and `2 * lasted` as a call of `__interval_times`.

    `-lasted` becomes a difference: DataFusion negates only the first part of an interval.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        name, fields = kind(node), body(node)
        if name == "UnaryOp" and fields["op"] == "Minus" and types.of(fields["expr"]) == INTERVAL:
            return {"Nested": written("INTERVAL '0 seconds' - v", v=fields["expr"])}
        if name != "BinaryOp":
            return node
        left, right = types.of(fields["left"]), types.of(fields["right"])
        if fields["op"] in {"Plus", "Minus"}:
            if is_date(left) and right in _INTERVALS:
                return {name: {**fields, "left": _at_midnight(fields["left"])}}
            if is_date(right) and left in _INTERVALS and fields["op"] == "Plus":
                return {name: {**fields, "right": _at_midnight(fields["right"])}}
            return node
        if fields["op"] == "Multiply" and right in _INTERVALS and is_number(left):
            return _product(fields["right"], fields["left"])
        if fields["op"] == "Multiply" and left in _INTERVALS and is_number(right):
            return _product(fields["left"], fields["right"])
        if fields["op"] == "Divide" and left in _INTERVALS and is_number(right):
            return written("__interval_times(CAST(v AS INTERVAL), 1, n)", v=fields["left"], n=fields["right"])
        return node

    return tree.rebuilt(change)


def _at_midnight(day: Json) -> Json:
    return written("CAST(v AS TIMESTAMP)", v=day)


def _product(interval: Json, number: Json) -> Json:
    return written("__interval_times(CAST(v AS INTERVAL), n, 1)", v=interval, n=number)
