"""Give a time zone to dates that meet timestamps with one, as PostgreSQL does: DataFusion drops the zone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, expressions_of, function_name, is_date

_FUNCTIONS: Final = frozenset({"coalesce", "nvl", "ifnull", "greatest", "least"})
WORDS: Final = frozenset({*_FUNCTIONS, "case", "union", "except", "intersect", "array"})
"""The words of which a text must have one for values of two types to meet."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Values of two types that become one type where they meet."""

    types: ExpressionTypes
    meet: Callable[[Sequence[Type]], bool]
    """Returns whether the values of some types need a change."""
    is_changed: Callable[[Type], bool]
    """Returns whether the values of a type change."""
    change: Callable[[Json], Json]
    is_open: Callable[[Json], bool] = lambda _: False
    """Returns whether a value takes the type of those that it meets, as a literal does."""

    def type_of(self, value: Json) -> Type:
        """Return the type of a value; None if the value takes that of the others."""
        return None if self.is_open(value) else self.types.of(value)

    def alike(self, values: Sequence[Json]) -> Sequence[Json]:
        """Return values of one type; the same object if they need no change."""
        given = [self.type_of(one) for one in values]
        if not self.meet(given):
            return values
        return [self.change(value) if self.is_changed(one) else value for value, one in zip(values, given, strict=True)]


def mixed_times(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `coalesce(due, seen)` as `coalesce(CAST(due AS TIMESTAMP WITH TIME ZONE), seen)`; also CASE and UNION.

    Of a set operation, the columns of a SELECT without a star are changed.
    """
    meeting = Meeting(ExpressionTypes(tree.root, columns_of), _meets_zone, is_date, _zoned)
    return tree.rebuilt(lambda node: together(node, meeting))


def together(node: Node, meeting: Meeting) -> Json:
    """Return a call, a CASE, an array or a set operation whose values have one type."""
    name, fields = kind(node), body(node)
    if name == "Function" and function_name(fields) in _FUNCTIONS:
        given = arguments(fields)
        after = meeting.alike(given)
        if after is given:
            return node
        listed = body(fields["args"])
        return {name: {**fields, "args": {"List": {**listed, "args": [{"Unnamed": {"Expr": one}} for one in after]}}}}
    if name == "Case":
        return _case(node, meeting)
    if name == "Array" and "elem" in fields:  # a type of arrays has the same kind
        elements = meeting.alike(fields["elem"])
        return node if elements is fields["elem"] else {name: {**fields, "elem": elements}}
    return _set_operation(node, meeting) if name == "SetOperation" else node


def _case(node: Node, meeting: Meeting) -> Json:
    fields = body(node)
    conditions, other = fields["conditions"], fields["else_result"]
    given = [*(one["result"] for one in conditions), *([] if other is None else [other])]
    after = meeting.alike(given)
    if after is given:
        return node
    results = [{**one, "result": value} for one, value in zip(conditions, after, strict=False)]
    return {"Case": {**fields, "conditions": results, "else_result": None if other is None else after[-1]}}


def _set_operation(node: Node, meeting: Meeting) -> Json:
    fields = body(node)
    sides = ("left", "right")
    pairs = list(zip(*(_column_types(fields[side], meeting) for side in sides), strict=False))
    after = {side: _select(fields[side], [meeting.meet(pair) for pair in pairs], meeting) for side in sides}
    same = all(after[side] is fields[side] for side in sides)
    return node if same else {"SetOperation": {**fields, **after}}


def _column_types(query: Json, meeting: Meeting) -> list[Type]:
    """Return the types of the columns of one side; None for a literal that takes that of the other side."""
    found = [column.type for column in meeting.types.columns(query) or []]
    values = expressions_of(query) if kind(query) == "Select" else []
    opened = [meeting.is_open(value) for value in values] or [False] * len(found)
    return [None if is_open else one for one, is_open in zip(found, opened, strict=False)]


def _select(query: Json, wanted: Sequence[bool], meeting: Meeting) -> Json:
    """Return a SELECT in which some columns are changed; the same object for other queries."""
    values = expressions_of(query) if kind(query) == "Select" else []
    changed = [meets and meeting.is_changed(meeting.types.of(one)) for meets, one in zip(wanted, values, strict=False)]
    if not any(changed):
        return query
    given = zip(body(query)["projection"], values, changed, strict=False)
    items = [_item(item, value, meeting) if one else item for item, value, one in given]
    rest = body(query)["projection"][len(items) :]
    return {"Select": {**body(query), "projection": [*items, *rest]}}


def _item(item: Json, value: Json, meeting: Meeting) -> Json:
    """Return an item of SELECT with the changed value and with the same name."""
    changed = meeting.change(value)
    if kind(item) == "ExprWithAlias":
        return {"ExprWithAlias": {**body(item), "expr": changed}}
    if kind(value) not in {"Identifier", "CompoundIdentifier"}:
        return {"UnnamedExpr": changed}
    name = body(value) if kind(value) == "Identifier" else body(value)[-1]
    return {"ExprWithAlias": {"expr": changed, "alias": name}}


def _meets_zone(given: Sequence[Type]) -> bool:
    """Return whether there are a date and a timestamp with a zone among some types."""
    zoned = (one is not None and pa.types.is_timestamp(one) and one.tz is not None for one in given)
    return any(map(is_date, given)) and any(zoned)


def _zoned(value: Json) -> Json:
    return written("CAST(v AS TIMESTAMP WITH TIME ZONE)", v=value)
