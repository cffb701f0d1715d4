"""DuckDB files, by DuckDB's own package."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from flightllm.attached.columns import Column, SourceTable
from flightllm.attached.literals import with_times
from flightllm.attached.source import Rows
from flightllm.errors import InvalidInputError, MissingExtraError

_CONFIG: Final[Mapping[str, str | bool | list[str] | int | float]] = {
    "enable_external_access": "false",  # else a view of the file could read other files of this server
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "2",
}
_CATALOG: Final = """
SELECT c.schema_name, c.table_name, c.column_name, c.data_type, t.estimated_size
  FROM duckdb_columns() AS c LEFT JOIN duckdb_tables() AS t
    ON t.database_name = c.database_name AND t.schema_name = c.schema_name AND t.table_name = c.table_name
 WHERE c.database_name = current_database() AND NOT c.internal ORDER BY c.schema_name, c.table_name, c.column_index"""
_ROWS: Final = 8_192
_NUMBERS: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}
_OTHERS: Final[Mapping[str, pa.DataType]] = {
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIME": pa.time64("us"),
    "BLOB": pa.binary(),
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_NESTED: Final = re.compile(r"\]$|^(?:STRUCT|MAP|UNION)\(")


class DuckdbSource:
    """A DuckDB file, opened for reading; scans share one instance of DuckDB, and each has its own connection."""

    dialect = "duckdb"
    literal = staticmethod(with_times)

    def __init__(self, path: Path, schema: str) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise MissingExtraError("an attached DuckDB file", "attached") from error
        self._driver: Any = duckdb
        self._path = path
        self._lock = Lock()
        self._shared: Any = None
        self.default_schema = schema or "main"

    def _connect(self) -> Any:
        with self._lock:
            if self._shared is None:
                if not self._path.is_file():
                    raise InvalidInputError("the server has no such file")
                self._shared = self._driver.connect(str(self._path), read_only=True, config=dict(_CONFIG))
                self._shared.execute("SET TimeZone = 'UTC'")
            return self._shared.cursor()

    def tables(self) -> list[SourceTable]:
        """Read the tables and views; a new connection sees the writes of other programs."""
        self.close()
        connection = self._connect()
        try:
            found = connection.execute(_CATALOG).fetchall()
        finally:
            connection.close()
        columns = defaultdict[tuple[str, str], list[Column]](list)
        rows = dict[tuple[str, str], int | None]()
        for schema, table, column, kind, count in found:
            columns[schema, table].append(_column(column, kind))
            rows[schema, table] = count
        return [SourceTable(*key, tuple(many), rows[key]) for key, many in columns.items()]

    def rows(self, text: str) -> Rows:
        """Begin a SELECT."""
        return _DuckdbRows(self._connect(), text)

    def close(self) -> None:
        """Close the shared connection; running scans keep theirs."""
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()


class _DuckdbRows:
    """The rows of one SELECT."""

    def __init__(self, connection: Any, text: str) -> None:
        self._connection, self._text = connection, text

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        self._connection.execute("SET TimeZone = 'UTC'")
        yield from self._connection.sql(self._text).to_arrow_reader(_ROWS)

    def cancel(self) -> None:
        """Stop the statement."""
        with suppress(Exception):  # the connection can be closed already
            self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._connection.close()


def _column(name: str, kind: str) -> Column:
    """Return a column; a type without an equal here is read as its text, and a nested one as JSON."""
    if kind in _NUMBERS:
        return Column(name, kind, _NUMBERS[kind], compared="order")
    if kind in _OTHERS:
        return Column(name, kind, _OTHERS[kind])
    if found := _DECIMAL.fullmatch(kind):
        return Column(name, kind, pa.decimal128(int(found[1]), int(found[2])), compared="order")
    if kind == "VARCHAR":
        return Column(name, kind, pa.string(), key=_by_bytes, compared="order")
    return Column(name, kind, pa.string(), _as_json if _NESTED.search(kind) else _as_text)


def _by_bytes(column: exp.Expr) -> exp.Expr:
    """Return a text as it is, compared by its bytes, whatever the collation of its column."""
    return exp.paren(exp.Collate(this=column, expression=exp.to_identifier("binary", quoted=True)))


def _as_text(column: exp.Expr) -> exp.Expr:
    return exp.cast(column, exp.DataType.Type.TEXT)


def _as_json(column: exp.Expr) -> exp.Expr:
    return exp.cast(exp.func("to_json", column), exp.DataType.Type.TEXT)
