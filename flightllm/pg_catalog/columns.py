"""Make the Arrow table of a system relation from the columns that differ from row to row."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import pyarrow as pa

from flightllm.pg_catalog.data import Relation, fixed_rows, relations

_NUMBERS: Final = frozenset(
    ("oid", "xid", "cid", "regproc", "regprocedure", "regoper", "regoperator", "regclass", "regtype", "regrole")
)
_TYPES: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(_NUMBERS, pa.uint32()),
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "cardinal_number": pa.int32(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "time_stamp": pa.timestamp("us", "UTC"),
    "bytea": pa.binary(),
    "int2vector": pa.list_(pa.int16()),
    "oidvector": pa.list_(pa.uint32()),
    "anyarray": pa.list_(pa.string()),
}
"""The Arrow types by names in `pg_type`; a number of an object has 32 bits without a sign, other types are texts."""
_EMPTY: Final[Mapping[pa.DataType, object]] = {pa.bool_(): False, pa.string(): "", pa.uint32(): 0}
VECTORS: Final = frozenset(("int2vector", "oidvector"))
TYPE_KEY: Final = b"pg_type"
"""The key in a field's metadata under which a result tells the name in `pg_type` that its Arrow type cannot tell."""
_TOLD: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(("name", "char", *VECTORS), pa.string()),
    "oid": pa.uint32(),
    "_oid": pa.list_(pa.uint32()),
}
_NUMBERED: Final = {kind: name for name, kind in _TOLD.items() if kind != pa.string()}


def result_field(name: str, kind: pa.DataType, known: str | None) -> pa.Field:
    """Return a column or parameter, with its name in `pg_type`, if that is `known` and tells more than `kind`."""
    told = _NUMBERED.get(pa.list_(kind.value_type) if pa.types.is_list(kind) else kind, known)
    return pa.field(name, kind, metadata={TYPE_KEY: told} if told is not None and _TOLD.get(told) == kind else None)


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a column; `kind` is a name in `pg_type`."""
    if kind.startswith("_"):
        return pa.list_(arrow_type(kind[1:]))
    return _TYPES.get(kind, pa.string())


@cache
def schema_of(relation: Relation) -> pa.Schema:
    """Return the Arrow schema of a relation."""
    return pa.schema([(column.name, arrow_type(column.kind)) for column in relation.columns])


@cache
def columns_of_kind(*kinds: str) -> frozenset[str]:
    """Return the names of the columns of `pg_catalog` that have one of these types, in every relation with them."""
    return frozenset(
        column.name
        for relation in relations().values()
        if relation.schema == "pg_catalog"
        for column in relation.columns
        if column.kind in kinds
    )


def table(name: str, rows: int, values: Mapping[str, Sequence[object] | object]) -> pa.Table:
    """Return `rows` rows of a relation of `pg_catalog`.

    A list has a value per row, and another value holds for all rows. A column that is not named is NULL, or 0, false or
    empty if it must have a value.
    """
    relation = relations()["pg_catalog", name]
    if unknown := set(values) - {column.name for column in relation.columns}:
        raise KeyError(f"{name} has no columns {sorted(unknown)}")
    arrays = []
    for column in relation.columns:
        kind = arrow_type(column.kind)
        value = values.get(column.name, _EMPTY.get(kind, 0) if column.required else None)
        if isinstance(value, list):
            arrays.append(pa.array(value, kind))
        elif isinstance(value, pa.ChunkedArray | pa.Array):
            arrays.append(value.cast(kind))
        elif pa.types.is_list(kind):
            arrays.append(pa.array([() if value == 0 else value] * rows, kind))
        else:
            arrays.append(pa.repeat(pa.scalar(value, kind), rows))
    return pa.Table.from_arrays(arrays, schema=schema_of(relation))


def rows_table(name: str, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return a relation of `pg_catalog` with these rows, all of which have the same columns."""
    names = list(rows[0]) if rows else []
    return table(name, len(rows), {column: [row[column] for row in rows] for column in names})


@cache
def fixed_table(name: str) -> pa.Table:
    """Return the rows of a relation that are the same on every server."""
    relation = relations()["pg_catalog", name]
    rows = fixed_rows(name)
    arrays = []
    for column in relation.columns:
        texts = [row[column.name] for row in rows]
        kind = arrow_type(column.kind)
        if column.kind == "oidvector":
            arrays.append(pa.array([[int(part) for part in (text or "").split()] for text in texts], kind))
        elif pa.types.is_list(kind):
            arrays.append(pa.nulls(len(rows), kind))
        elif kind == pa.string():
            arrays.append(pa.array([text or "" if column.required else text for text in texts], kind))
        else:
            arrays.append(pa.array(texts, pa.string()).cast(kind))
    return pa.Table.from_arrays(arrays, schema=schema_of(relation))
