"""Make one type of values that become one column, as PostgreSQL does.

DataFusion makes decimals with 15 digits of decimals and doubles, and drops the zone where dates meet timestamps with
one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, new_identifier, replaced
from flightllm.sql.query_columns import Columns, TableColumns, Type, own_functions
from flightllm.sql.select_shapes import changes_per_call
from flightllm.sql.tree import Tree, written, written_query
from flightllm.sql.types import (
    ExpressionTypes,
    arguments,
    expressions_of,
    function_name,
    is_date,
    is_decimal,
    is_double,
)

_FUNCTIONS: Final = frozenset({"coalesce", "nvl", "ifnull", "greatest", "least"})
WORDS: Final = frozenset({*_FUNCTIONS, "nullif", "case", "union", "except", "intersect", "array"})
"""The words of which a text must have one for values of two types to meet."""
_MET: Final = "met"
"""The name of a query whose columns are changed."""


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Values of two types that become one type where they meet."""

    is_changed: Callable[[Type], bool]
    """Returns whether the values of a type change."""
    is_kept: Callable[[Type], bool]
    """Returns whether the values of a type make the others change."""
    form: str
    """The expression of a changed value `v`."""

    def meet(self, given: Sequence[Type]) -> bool:
        """Return whether the values of some types need a change."""
        return any(map(self.is_changed, given)) and any(map(self.is_kept, given))

    def change(self, value: Json) -> Json:
        """Return a changed value."""
        return written(self.form, v=value)


def _has_zone(given: Type) -> bool:
    return given is not None and bool(pa.types.is_timestamp(given)) and given.tz is not None


_NUMBERS: Final = _Meeting(is_decimal, is_double, "CAST(v AS DOUBLE)")
_TIMES: Final = _Meeting(is_date, _has_zone, "CAST(v AS TIMESTAMP WITH TIME ZONE)")


def meetings(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `coalesce(price, est)` of a decimal and a double as `coalesce(CAST(price AS DOUBLE), est)`.

    `coalesce(due, seen)` becomes `coalesce(CAST(due AS TIMESTAMP WITH TIME ZONE), seen)`. Also CASE and UNION.
    """
    writer = _Writer(ExpressionTypes(tree.root, columns_of), own_functions(columns_of))
    return tree.rebuilt(writer.changed)


class _Writer:
    """Writes the meetings of one statement."""

    def __init__(self, types: ExpressionTypes, own: Collection[str]) -> None:
        self._types = types
        self._own = own

    def changed(self, node: Node) -> Json:
        """Return a call, a CASE, an array or a set operation whose values have one type."""
        name, fields = kind(node), body(node)
        if name == "Function" and function_name(fields) == "nullif":
            return self._nullif(node)
        for meeting in (_NUMBERS, _TIMES):
            node = self._together(node, meeting)
        return node

    def _nullif(self, node: Node) -> Json:
        """Return `nullif` of a decimal and a double: the first value keeps its type."""
        given = arguments(body(node))
        if self._alike(given, _NUMBERS) is given or len(given) != 2:
            return node
        if not is_decimal(self._types.of(given[0])):
            return written("nullif(a, CAST(b AS DOUBLE))", a=given[0], b=given[1])
        if changes_per_call(given[0], self._own):
            return node  # its two values could differ
        same = "CAST(a AS DOUBLE) = CAST(b AS DOUBLE)"
        return written(f"CASE WHEN {same} THEN NULL ELSE a END", a=given[0], b=given[1])

    def _alike(self, values: Sequence[Json], meeting: _Meeting) -> Sequence[Json]:
        """Return values of one type; the same object if they need no change."""
        given = [self._types.of(one) for one in values]
        if not meeting.meet(given):
            return values
        pairs = zip(values, given, strict=True)
        return [meeting.change(value) if meeting.is_changed(one) else value for value, one in pairs]

    def _together(self, node: Node, meeting: _Meeting) -> Json:
        name, fields = kind(node), body(node)
        if name == "Function" and function_name(fields) in _FUNCTIONS:
            given = arguments(fields)
            after = self._alike(given, meeting)
            if after is given:
                return node
            listed = {**body(fields["args"]), "args": [{"Unnamed": {"Expr": one}} for one in after]}
            return {name: {**fields, "args": {"List": listed}}}
        if name == "Case":
            return self._case(node, meeting)
        if name == "Array" and "elem" in fields:  # a type of arrays has the same kind
            elements = self._alike(fields["elem"], meeting)
            return node if elements is fields["elem"] else {name: {**fields, "elem": elements}}
        return self._set_operation(node, meeting) if name == "SetOperation" else node

    def _case(self, node: Node, meeting: _Meeting) -> Json:
        fields = body(node)
        conditions, other = fields["conditions"], fields["else_result"]
        given = [*(one["result"] for one in conditions), *([] if other is None else [other])]
        after = self._alike(given, meeting)
        if after is given:
            return node
        results = [{**one, "result": value} for one, value in zip(conditions, after, strict=False)]
        return {"Case": {**fields, "conditions": results, "else_result": None if other is None else after[-1]}}

    def _set_operation(self, node: Node, meeting: _Meeting) -> Json:
        """Return a set operation; the operations below it have one type for each column already."""
        fields = body(node)
        sides = {side: self._types.columns(fields[side]) or [] for side in ("left", "right")}
        wanted = [meeting.meet([one.type for one in pair]) for pair in zip(*sides.values(), strict=False)]
        if not any(wanted):
            return node
        changes: dict[int, Json] = {}
        for side, columns in sides.items():
            if _changed(columns, wanted, meeting):
                changes |= {id(query): self._query(query, wanted, meeting) for query in _united(fields[side])}
        return {"SetOperation": {**fields, **{side: replaced(fields[side], changes) for side in sides}}}

    def _query(self, query: Json, wanted: Sequence[bool], meeting: _Meeting) -> Json:
        """Return a query with changed columns; the same object if all its columns stay."""
        columns = self._types.columns(query) or []
        changed = _changed(columns, wanted, meeting)
        if not changed:
            return query
        if kind(query) == "Values":
            rows = [[self._value(one, at in changed, meeting) for at, one in enumerate(r)] for r in body(query)["rows"]]
            return {"Values": {**body(query), "rows": rows}}
        if kind(query) == "Select" and (values := expressions_of(query)):
            items = zip(body(query)["projection"], values, strict=True)
            after = [_item(item, value, meeting) if at in changed else item for at, (item, value) in enumerate(items)]
            return {"Select": {**body(query), "projection": after}}
        return _around(query, columns, changed, meeting)

    def _value(self, value: Json, is_wanted: bool, meeting: _Meeting) -> Json:  # noqa: FBT001 - of one column
        return meeting.change(value) if is_wanted and meeting.is_changed(self._types.of(value)) else value


def _changed(columns: Columns, wanted: Sequence[bool], meeting: _Meeting) -> Collection[int]:
    """Return the places of the columns that change."""
    pairs = enumerate(zip(columns or [], wanted, strict=False))
    return {at for at, (column, meets) in pairs if meets and meeting.is_changed(column.type)}


def _united(query: Json) -> Iterator[Json]:
    """Yield the queries whose rows UNION ALL puts together; another query is its own."""
    todo = [query]
    while todo:
        found = todo.pop()
        fields = body(found)
        if kind(found) == "SetOperation" and fields["op"] == "Union" and fields["set_quantifier"] == "All":
            todo += [fields["right"], fields["left"]]
        else:
            yield found


def _around(query: Json, columns: Columns, changed: Collection[int], meeting: _Meeting) -> Json:
    """Return a SELECT from a query; what the query compares, sorts and cuts keeps its type."""
    inner: Mapping[str, Json] = body(query) if kind(query) == "Query" else {**written_query("SELECT 0"), "body": query}
    names = [f"c{at}" for at in range(len(columns or []))]
    found = body(written_query(f"SELECT 0 FROM q AS {_MET} ({', '.join(names)})", q=inner)["body"])
    items = []
    for at, column in enumerate(columns or []):
        value: Json = {"Identifier": new_identifier(names[at])}
        value = meeting.change(value) if at in changed else value
        items.append({"ExprWithAlias": {"expr": value, "alias": new_identifier(column.name)}})
    return {"Select": {**found, "projection": items}}


def _item(item: Json, value: Json, meeting: _Meeting) -> Json:
    """Return an item of SELECT with the changed value and with the same name."""
    changed = meeting.change(value)
    if kind(item) == "ExprWithAlias":
        return {"ExprWithAlias": {**body(item), "expr": changed}}
    if kind(value) not in {"Identifier", "CompoundIdentifier"}:
        return {"UnnamedExpr": changed}
    name = body(value) if kind(value) == "Identifier" else body(value)[-1]
    return {"ExprWithAlias": {"expr": changed, "alias": name}}
