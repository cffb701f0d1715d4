"""The types of the parameters of a query about the catalog: those of their casts, or of the columns beside them."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import pyarrow as pa
from sqlglot import exp

from flightllm.pg_catalog.columns import arrow_type
from flightllm.pg_catalog.data import relations
from flightllm.pg_catalog.parsing import cast_name, read

_CASTS: Final = {
    "uint": pa.uint32(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
}


def parameter_kinds(sql: str, names: Sequence[str]) -> list[pa.DataType]:
    """Return a type for each parameter; a parameter is a text if nothing says more. `names` are those of the text."""
    kinds: list[pa.DataType] = [pa.string()] * len(names)
    asked = read(sql)
    if asked is None:
        return kinds
    at = 0
    for node in asked.tree.find_all(exp.Placeholder, exp.Parameter, bfs=False):
        text = node.name or (node.this.name if isinstance(node.this, exp.Expression) else "")
        if text.isdecimal():
            place = int(text) - 1
        else:
            place = names.index(text) if text in names else at
            at += 1
        if place < len(kinds):
            kinds[place] = _kind(node) or kinds[place]
    return kinds


def _kind(node: exp.Expression) -> pa.DataType | None:
    """Return the type that the place of a parameter asks for."""
    parent, listed = node.parent, False
    while isinstance(parent, exp.Paren | exp.Any | exp.All | exp.Array | exp.Tuple):
        listed = listed or isinstance(parent, exp.Any | exp.All)
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return _cast_kind(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset):
        return pa.int64()
    if isinstance(parent, exp.Binary | exp.In):
        beside = parent.this if parent.this is not node else parent.expression
        kind = _column_kind(beside.name) if isinstance(beside, exp.Column) else None
        return pa.list_(kind) if kind is not None and listed else kind
    return None


def _cast_kind(kind: exp.DataType) -> pa.DataType | None:
    if cast_name(kind) == "array" and kind.expressions:
        return pa.list_(_cast_kind(kind.expressions[0]) or pa.string())
    return _CASTS.get(cast_name(kind))


@cache
def _column_kind(name: str) -> pa.DataType | None:
    """Return the type of a column of the catalog, if all columns of this name have one type."""
    kinds = {
        arrow_type(column.kind) for one in relations().values() for column in one.columns if column.name == name.lower()
    }
    return kinds.pop() if len(kinds) == 1 else None
