"""The catalog, in the result format of Flight SQL's metadata commands."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from flightllm.catalog import TableInfo
from flightllm.common.arrow_types import declared
from flightllm.common.names import CATALOG
from flightllm.flight.backend import BackendCatalog
from flightllm.flight.key_rows import key_rows
from flightllm.flight.like import like
from flightllm.flight.messages import Command
from flightllm.flight.sql_info import SQL_INFO_SCHEMA, Value, sql_info_table
from flightllm.flight.sql_types import described, type_rows

TABLE_TYPES = ("SYSTEM TABLE", "TABLE", "VIEW")
_LARGEST = 2 << 20
"""If a table's schema takes more bytes than this, column metadata is left out of it."""
_TYPE_ALIASES = {"BASE TABLE": "TABLE"}
"""The catalog and Grafana use the type name `BASE TABLE`; other clients use `TABLE`."""


def _schema(**types: str | pa.DataType) -> pa.Schema:
    """Make a schema of `name=type`; a type with a trailing `?` is nullable."""
    fields = []
    for name, given in types.items():
        text = given if isinstance(given, str) else ""
        nullable = text.endswith("?")
        kind = pa.type_for_alias(text.rstrip("?")) if text else given
        fields.append(pa.field(name, kind, nullable=nullable))
    return pa.schema(fields)


_REFERENCE = _schema(
    pk_catalog_name="string?",
    pk_db_schema_name="string?",
    pk_table_name="string",
    pk_column_name="string",
    fk_catalog_name="string?",
    fk_db_schema_name="string?",
    fk_table_name="string",
    fk_column_name="string",
    key_sequence="int32",
    fk_key_name="string?",
    pk_key_name="string?",
    update_rule="uint8",
    delete_rule="uint8",
)
_TABLES = _schema(catalog_name="string?", db_schema_name="string?", table_name="string", table_type="string")
_KEYS = ("CommandGetPrimaryKeys", "CommandGetExportedKeys", "CommandGetImportedKeys", "CommandGetCrossReference")
_SCHEMAS: Mapping[str, pa.Schema] = {
    "CommandGetSqlInfo": SQL_INFO_SCHEMA,
    "CommandGetCatalogs": _schema(catalog_name="string"),
    "CommandGetDbSchemas": _schema(catalog_name="string?", db_schema_name="string"),
    "CommandGetTables": _TABLES,
    "CommandGetTableTypes": _schema(table_type="string"),
    "CommandGetPrimaryKeys": _schema(
        catalog_name="string?",
        db_schema_name="string?",
        table_name="string",
        column_name="string",
        key_name="string?",
        key_sequence="int32",
    ),
    "CommandGetExportedKeys": _REFERENCE,
    "CommandGetImportedKeys": _REFERENCE,
    "CommandGetCrossReference": _REFERENCE,
    "CommandGetXdbcTypeInfo": pa.schema(
        [
            *_schema(type_name="string", data_type="int32", column_size="int32?"),
            *_schema(literal_prefix="string?", literal_suffix="string?"),
            pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
            *_schema(nullable="int32", case_sensitive="bool", searchable="int32", unsigned_attribute="bool?"),
            *_schema(fixed_prec_scale="bool", auto_increment="bool?", local_type_name="string?"),
            *_schema(minimum_scale="int32?", maximum_scale="int32?", sql_data_type="int32"),
            *_schema(datetime_subcode="int32?", num_prec_radix="int32?", interval_precision="int32?"),
        ]
    ),
}


def is_metadata(command: Command) -> bool:
    """Return whether `command` reads the catalog or the server's properties."""
    return command.name in _SCHEMAS


def metadata_schema(command: Command) -> pa.Schema:
    """Return the schema of a metadata command's result."""
    schema = _SCHEMAS[command.name]
    if command.name == "CommandGetTables" and command.message.include_schema:
        return schema.append(pa.field("table_schema", pa.binary(), nullable=False))
    return schema


def metadata_table(
    command: Command, catalog: BackendCatalog, info: Mapping[int, Value], most_bytes: int = _LARGEST
) -> pa.Table:
    """Return a metadata command's result.

    If a table's schema takes more than `most_bytes`, Flight SQL's column metadata is left out of it.
    """
    message, schema = command.message, metadata_schema(command)
    if command.name == "CommandGetSqlInfo":
        return sql_info_table(info, message.info)
    if command.name in _KEYS:
        return pa.Table.from_pylist(key_rows(command.name, message, catalog), schema=schema)
    rows: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "CommandGetCatalogs": lambda: [{"catalog_name": CATALOG}],
        "CommandGetDbSchemas": lambda: _db_schemas(message, catalog),
        "CommandGetTables": lambda: _tables(message, catalog, most_bytes),
        "CommandGetTableTypes": lambda: [{"table_type": kind} for kind in TABLE_TYPES],
        "CommandGetXdbcTypeInfo": lambda: type_rows(message.data_type if message.HasField("data_type") else None),
    }
    return pa.Table.from_pylist(rows.get(command.name, list)(), schema=schema)


def _db_schemas(message: Any, catalog: BackendCatalog) -> list[dict[str, Any]]:
    matches = _like(message, "db_schema_filter_pattern")
    names = sorted(name for name in catalog.schemas() if _in_catalog(message) and matches(name))
    return [{"catalog_name": CATALOG, "db_schema_name": name} for name in names]


def _tables(message: Any, catalog: BackendCatalog, most_bytes: int) -> list[dict[str, Any]]:
    in_schema, named = _like(message, "db_schema_filter_pattern"), _like(message, "table_name_filter_pattern")
    types = {_table_type(kind) for kind in message.table_types}

    def asked(table: TableInfo) -> bool:
        right_type = not types or _table_type(table.type) in types
        return right_type and in_schema(table.name.schema) and named(table.name.name)

    found = [table for table in catalog.tables() if asked(table)] if _in_catalog(message) else []
    found.sort(key=lambda table: (table.name.schema, table.name.name))
    return [_row(table, most_bytes if message.include_schema else None) for table in found]


def _row(table: TableInfo, most_bytes: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "catalog_name": CATALOG,
        "db_schema_name": table.name.schema,
        "table_name": table.name.name,
        "table_type": _table_type(table.type),
    }
    if most_bytes is not None:
        row["table_schema"] = _encoded(table, most_bytes)
    return row


def _encoded(table: TableInfo, most_bytes: int) -> bytes:
    """Encode a table's schema with as much column metadata as fits into `most_bytes`.

    The limit is necessary because one value of a result cannot be sent in pieces. The names of catalog, schema and
    table are dropped first, because the table's row has these names too.
    """
    place = {"CATALOG_NAME": CATALOG, "DB_SCHEMA_NAME": table.name.schema, "TABLE_NAME": table.name.name}
    read_only = table.type != "BASE TABLE"
    for known in (place, {}):
        encoded: bytes = described(table.schema, known, read_only=read_only).serialize().to_pybytes()
        if len(encoded) <= most_bytes:
            return encoded
    plain: bytes = declared(table.schema).serialize().to_pybytes()
    return plain


def _table_type(kind: str) -> str:
    return _TYPE_ALIASES.get(kind.upper(), kind.upper())


def _in_catalog(message: Any) -> bool:
    """Return whether a message asks for the server's catalog; ODBC's applications send a pattern."""
    return not message.HasField("catalog") or message.catalog in {CATALOG, "%"}


def _like(message: Any, field: str) -> Callable[[str], bool]:
    """Return a predicate for the LIKE pattern of a field; an absent field matches all names."""
    if not message.HasField(field):
        return lambda _: True
    return like(getattr(message, field))
