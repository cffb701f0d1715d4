"""The declared keys as tables that replace the tables of `information_schema` that DataFusion lacks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from flightllm.catalog.entries import Entry
from flightllm.common.names import CATALOG, TableName
from flightllm.errors import NotFoundError
from flightllm.sql.keys import ForeignKey, Key

_NAMES = ("constraint_catalog", "constraint_schema", "constraint_name")
_TABLE = ("table_catalog", "table_schema", "table_name")
_UNIQUE = ("unique_constraint_catalog", "unique_constraint_schema", "unique_constraint_name")


def _texts(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


_SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "table_constraints": pa.schema(
            _texts(*_NAMES, *_TABLE, "constraint_type", "is_deferrable", "initially_deferred", "enforced")
        ),
        "key_column_usage": pa.schema(
            [
                *_texts(*_NAMES, *_TABLE, "column_name"),
                ("ordinal_position", pa.int32()),
                ("position_in_unique_constraint", pa.int32()),
            ]
        ),
        "referential_constraints": pa.schema(
            _texts(*_NAMES, *_UNIQUE, "match_option", "update_rule", "delete_rule", "table_schema", "table_name")
        ),
        "constraint_column_usage": pa.schema(_texts(*_TABLE, "column_name", *_NAMES)),
    }
)
"""The columns of the SQL standard, and in `referential_constraints` the table that decides who can see the row."""


class KeyTables:
    """`table_constraints` and the other tables about keys; `entries` returns the existing tables."""

    schemas = _SCHEMAS

    def __init__(self, entries: Callable[[], Mapping[TableName, Entry]]) -> None:
        self._entries = entries

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now.

        Raises:
            NotFoundError: there is no table with this name.
        """
        if name not in _SCHEMAS:
            raise NotFoundError(f"there is no system table {name!r}")
        rows = {
            "table_constraints": _constraints,
            "key_column_usage": _columns,
            "referential_constraints": _references,
            "constraint_column_usage": _usage,
        }[name]
        entries = self._entries()
        keyed = sorted((entry for entry in entries.values() if entry.keys), key=lambda entry: entry.name)
        return pa.Table.from_pylist([row for entry in keyed for row in rows(entry, entries)], schema=_SCHEMAS[name])


_Entries = Mapping[TableName, Entry]
_Row = dict[str, object]


def _keys(entry: Entry) -> Iterator[tuple[str, Key | ForeignKey]]:
    if entry.keys.primary is not None:
        yield "PRIMARY KEY", entry.keys.primary
    yield from (("UNIQUE", key) for key in entry.keys.unique)
    yield from (("FOREIGN KEY", key) for key in entry.keys.foreign)


def _named(key: Key | ForeignKey, entry: Entry) -> _Row:
    return dict(zip(_NAMES, (CATALOG, entry.name.schema, key.name), strict=True))


def _table(name: TableName) -> _Row:
    return dict(zip(_TABLE, (CATALOG, name.schema, name.name), strict=True))


def _constraints(entry: Entry, _: _Entries) -> Iterable[_Row]:
    told = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "NO"}
    for kind, key in _keys(entry):
        yield {**_named(key, entry), **_table(entry.name), "constraint_type": kind, **told}


def _columns(entry: Entry, _: _Entries) -> Iterable[_Row]:
    for kind, key in _keys(entry):
        for place, column in enumerate(key.columns, 1):
            referred = place if kind == "FOREIGN KEY" else None
            yield {
                **_named(key, entry),
                **_table(entry.name),
                "column_name": column,
                "ordinal_position": place,
                "position_in_unique_constraint": referred,
            }


def _references(entry: Entry, entries: _Entries) -> Iterable[_Row]:
    for key in entry.keys.foreign:
        if (other := entries.get(key.table)) is None:
            continue
        unique = next((one.name for one in other.keys.candidates if one.columns == key.references), None)
        yield {
            **_named(key, entry),
            **dict(zip(_UNIQUE, (CATALOG, key.table.schema, unique), strict=True)),
            "match_option": "NONE",
            "update_rule": key.on_update,
            "delete_rule": key.on_delete,
            "table_schema": entry.name.schema,
            "table_name": entry.name.name,
        }


def _usage(entry: Entry, entries: _Entries) -> Iterable[_Row]:
    for _, key in _keys(entry):
        table, columns = entry.name, key.columns
        if isinstance(key, ForeignKey):
            table, columns = key.table, key.references
        for column in columns if table in entries else ():
            yield {**_table(table), "column_name": column, **_named(key, entry)}
