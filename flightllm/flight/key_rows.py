"""The rows of GetPrimaryKeys, GetImportedKeys, GetExportedKeys and GetCrossReference."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flightllm.catalog import TableInfo
from flightllm.common.names import CATALOG, TableName
from flightllm.flight.backend import BackendCatalog
from flightllm.sql.keys import RULES, ForeignKey

_Row = dict[str, Any]


def key_rows(name: str, message: Any, catalog: BackendCatalog) -> list[_Row]:
    """Return the rows of one of the four commands, for the tables of `catalog`."""
    tables = list(catalog.tables())
    rows: Mapping[str, Callable[[], Iterable[_Row]]] = {
        "CommandGetPrimaryKeys": lambda: _primary(message, tables),
        "CommandGetExportedKeys": lambda: _foreign(tables, primary=_asked(message)),
        "CommandGetImportedKeys": lambda: _foreign(tables, foreign=_asked(message)),
        "CommandGetCrossReference": lambda: _foreign(tables, _asked(message, "pk_"), _asked(message, "fk_")),
    }
    return list(rows[name]())


def _asked(message: Any, prefix: str = "") -> Callable[[TableName], bool]:
    """Return a test whether a table is the one that a command names; an absent field matches anything."""

    def matches(field: str, value: str) -> bool:
        given = prefix + field
        return not message.HasField(given) or getattr(message, given) == value

    def is_asked(table: TableName) -> bool:
        named = getattr(message, f"{prefix}table") == table.name
        return named and matches("db_schema", table.schema) and matches("catalog", CATALOG)

    return is_asked


def _primary(message: Any, tables: Iterable[TableInfo]) -> Iterator[_Row]:
    is_asked = _asked(message)
    for table in tables:
        if table.keys.primary is None or not is_asked(TableName(table.name.schema, table.name.name)):
            continue
        for place, column in enumerate(table.keys.primary.columns, 1):
            yield {
                "catalog_name": CATALOG,
                "db_schema_name": table.name.schema,
                "table_name": table.name.name,
                "column_name": column,
                "key_name": table.keys.primary.name,
                "key_sequence": place,
            }


def _foreign(
    tables: Iterable[TableInfo],
    primary: Callable[[TableName], bool] = lambda _: True,
    foreign: Callable[[TableName], bool] = lambda _: True,
) -> list[_Row]:
    """Return the columns of foreign keys, except keys that refer to dropped tables or columns."""
    known = {TableName(table.name.schema, table.name.name): table for table in tables}
    rows: list[_Row] = []
    for name, table in known.items():
        for key in table.keys.foreign:
            other = known.get(key.table)
            if (
                other is not None
                and primary(key.table)
                and foreign(name)
                and {*key.references} <= {*other.schema.names}
            ):
                rows += _rows(key, name, other)
    return sorted(rows, key=_order)


def _rows(key: ForeignKey, name: TableName, other: TableInfo) -> Iterator[_Row]:
    referred = next((one.name for one in other.keys.candidates if one.columns == key.references), None)
    for place, (column, reference) in enumerate(zip(key.columns, key.references, strict=True), 1):
        yield {
            "pk_catalog_name": CATALOG,
            "pk_db_schema_name": key.table.schema,
            "pk_table_name": key.table.name,
            "pk_column_name": reference,
            "fk_catalog_name": CATALOG,
            "fk_db_schema_name": name.schema,
            "fk_table_name": name.name,
            "fk_column_name": column,
            "key_sequence": place,
            "fk_key_name": key.name,
            "pk_key_name": referred,
            "update_rule": RULES.index(key.on_update),
            "delete_rule": RULES.index(key.on_delete),
        }


def _order(row: _Row) -> tuple[Any, ...]:
    """Return the sort key of a row: the other table, as the protocol requires, then the name of the key."""
    places = ("pk_db_schema_name", "pk_table_name", "fk_db_schema_name", "fk_table_name", "fk_key_name", "key_sequence")
    return tuple(row[place] for place in places)
