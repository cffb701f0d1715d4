"""Give a time zone to dates that meet timestamps with one, as PostgreSQL does: DataFusion drops the zone."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, expressions_of, function_name, is_date

_FUNCTIONS: Final = frozenset({"coalesce", "nvl", "ifnull", "greatest", "least"})
WORDS: Final = frozenset({*_FUNCTIONS, "case", "union", "except", "intersect", "array"})
"""The words of which a text must have one for values of two types to meet."""


def mixed_times(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `coalesce(due, seen)` as `coalesce(CAST(due AS TIMESTAMP WITH TIME ZONE), seen)`; also CASE and UNION.

    Of a set operation, the columns of a SELECT without a star are changed.
    """
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _changed(node, types))


def _changed(node: Node, types: ExpressionTypes) -> Json:
    name, fields = kind(node), body(node)
    if name == "Function" and function_name(fields) in _FUNCTIONS:
        given = arguments(fields)
        after = _together(given, types)
        if after is given:
            return node
        listed = body(fields["args"])
        return {name: {**fields, "args": {"List": {**listed, "args": [{"Unnamed": {"Expr": one}} for one in after]}}}}
    if name == "Case":
        return _case(node, types)
    if name == "Array" and "elem" in fields:  # a type of arrays has the same kind
        elements = _together(fields["elem"], types)
        return node if elements is fields["elem"] else {name: {**fields, "elem": elements}}
    return _set_operation(node, types) if name == "SetOperation" else node


def _case(node: Node, types: ExpressionTypes) -> Json:
    fields = body(node)
    conditions, other = fields["conditions"], fields["else_result"]
    given = [*(one["result"] for one in conditions), *([] if other is None else [other])]
    after = _together(given, types)
    if after is given:
        return node
    results = [{**one, "result": value} for one, value in zip(conditions, after, strict=False)]
    return {"Case": {**fields, "conditions": results, "else_result": None if other is None else after[-1]}}


def _set_operation(node: Node, types: ExpressionTypes) -> Json:
    fields = body(node)
    sides = {side: types.columns(fields[side]) or [] for side in ("left", "right")}
    pairs = list(zip(*([column.type for column in side] for side in sides.values()), strict=False))
    after = {side: _select(fields[side], [_meets_zone(pair) for pair in pairs], types) for side in sides}
    same = all(after[side] is fields[side] for side in sides)
    return node if same else {"SetOperation": {**fields, **after}}


def _select(query: Json, zoned: Sequence[bool], types: ExpressionTypes) -> Json:
    """Return a SELECT with a zone for the dates of some columns; the same object for other queries."""
    values = expressions_of(query) if kind(query) == "Select" else []
    if not any(wanted and is_date(types.of(value)) for wanted, value in zip(zoned, values, strict=False)):
        return query
    given = zip(body(query)["projection"], values, zoned, strict=False)
    items = [_item(item, value) if wanted and is_date(types.of(value)) else item for item, value, wanted in given]
    rest = body(query)["projection"][len(items) :]
    return {"Select": {**body(query), "projection": [*items, *rest]}}


def _item(item: Json, value: Json) -> Json:
    """Return an item of SELECT as a timestamp with a zone and with the same name."""
    if kind(item) == "ExprWithAlias":
        return {"ExprWithAlias": {**body(item), "expr": _zoned(value)}}
    if kind(value) not in {"Identifier", "CompoundIdentifier"}:
        return {"UnnamedExpr": _zoned(value)}
    name = body(value) if kind(value) == "Identifier" else body(value)[-1]
    return {"ExprWithAlias": {"expr": _zoned(value), "alias": name}}


def _together(values: Sequence[Json], types: ExpressionTypes) -> Sequence[Json]:
    """Return values of one type; the same object if no date meets a timestamp with a zone."""
    given = [types.of(one) for one in values]
    if not _meets_zone(given):
        return values
    return [_zoned(value) if is_date(one) else value for value, one in zip(values, given, strict=True)]


def _meets_zone(given: Sequence[Type]) -> bool:
    """Return whether there are a date and a timestamp with a zone among some types."""
    zoned = (one is not None and pa.types.is_timestamp(one) and one.tz is not None for one in given)
    return any(map(is_date, given)) and any(zoned)


def _zoned(value: Json) -> Json:
    return written("CAST(v AS TIMESTAMP WITH TIME ZONE)", v=value)
