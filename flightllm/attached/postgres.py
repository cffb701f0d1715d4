"""PostgreSQL, and servers that speak its protocol, by ADBC."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from sqlglot import exp

from flightllm.attached.columns import Column, SourceTable, as_it_is
from flightllm.attached.idle import IdleConnections
from flightllm.attached.literals import with_times
from flightllm.attached.source import Rows
from flightllm.errors import MissingExtraError

_SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
}
"""The settings of each connection: texts of values must not depend on the server's own settings."""
_SET: Final = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
_BATCH_BYTES: Final = "1048576"
_CATALOG: Final = """
SELECT n.nspname AS schema_name, c.relname AS table_name, c.reltuples::float8 AS rows, a.attname AS column_name,
       b.typname AS type_name, b.typtype::text AS type_kind, b.typcategory::text AS category,
       format_type(a.atttypid, a.atttypmod) AS shown, (t.typtype = 'd') AS is_domain,
       (CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END)::int8 AS modifier
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
   AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp%'
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
 ORDER BY n.nspname, c.relname, a.attnum"""
_PLAIN: Final[Mapping[str, tuple[pa.DataType, str]]] = {
    "bool": (pa.bool_(), "boolean"),
    "int2": (pa.int16(), "smallint"),
    "int4": (pa.int32(), "integer"),
    "int8": (pa.int64(), "bigint"),
    "float4": (pa.float32(), "real"),
    "float8": (pa.float64(), "double precision"),
    "bytea": (pa.binary(), "bytea"),
    "date": (pa.date32(), "date"),
    "timestamp": (pa.timestamp("us"), "timestamp"),
    "timestamptz": (pa.timestamp("us", "UTC"), "timestamptz"),
    "time": (pa.time64("us"), "time"),
}
"""The types that have an equal here, by their names in pg_type, with their names in casts."""
_TEXTS: Final = frozenset({"text", "varchar"})
_ORDERED: Final = frozenset({"bool", "int2", "int4", "int8", "float4", "float8", "date", "timestamp", "timestamptz"})
_MOST_DIGITS: Final = 38
_HEADER: Final = 4
"""The bytes that PostgreSQL adds to a modifier of a type."""
_OPTION: Final = re.compile(r"\bconnect_timeout\b")


class PostgresSource:
    """A PostgreSQL server; each scan has a connection of its own, which a later scan can use again."""

    dialect = "postgres"

    def __init__(self, address: str, schema: str, login: Mapping[str, str], connect_seconds: int) -> None:
        try:
            import adbc_driver_postgresql.dbapi as driver
        except ImportError as error:
            raise MissingExtraError("an attached PostgreSQL", "attached") from error
        self._driver = driver
        self._address = _with_options(address, login, connect_seconds)
        self.default_schema = schema or "public"
        self._connections = IdleConnections(self._connect)

    literal = staticmethod(with_times)

    def _connect(self) -> Any:
        connection = self._driver.connect(self._address, autocommit=True)
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(_SET)
                cursor.fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def tables(self) -> list[SourceTable]:
        """Read the tables, views and foreign tables that the login can read."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(_CATALOG)
            found = cursor.fetch_arrow_table().to_pylist()
        columns = defaultdict[tuple[str, str], list[Column]](list)
        rows = dict[tuple[str, str], int | None]()
        for one in found:
            key = one["schema_name"], one["table_name"]
            columns[key].append(_column(one))
            rows[key] = int(one["rows"]) if one["rows"] >= 0 else None
        return [SourceTable(*key, tuple(many), rows[key]) for key, many in columns.items()]

    def rows(self, text: str) -> Rows:
        """Begin a SELECT."""
        return _PostgresRows(self._connections, text)

    def close(self) -> None:
        """Close the connections that wait; running scans keep theirs."""
        self._connections.close()


class _PostgresRows:
    """The rows of one SELECT, streamed by COPY."""

    def __init__(self, connections: IdleConnections, text: str) -> None:
        self._connections, self._text = connections, text
        self._connection, self._used = connections.take()
        self._cursor = self._begin()
        self._done = False

    def _begin(self) -> Any:
        options = {"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES}
        return self._connection.cursor(adbc_stmt_kwargs=options)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. A connection that was idle can be dead, so the statement then gets a new one."""
        try:
            self._cursor.execute(self._text)
        except Exception:
            if not self._used or not self._is_dead():
                raise
            self._release()
            self._connections.close()  # what ended one connection has ended the others, too
            self._connection, self._used = self._connections.take()
            self._cursor = self._begin()
            self._cursor.execute(self._text)
        with self._cursor.fetch_record_batch() as reader:
            yield from reader
        self._done = True

    def _is_dead(self) -> bool:
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute("SELECT 1")
                cursor.fetchall()
        except Exception:  # noqa: BLE001 - each error means that the connection cannot be used
            return True
        return False

    def cancel(self) -> None:
        """Ask the server to stop."""
        with suppress(Exception):  # the statement can have ended
            self._cursor.adbc_cancel()

    def close(self) -> None:
        """Release the connection, or keep it if the statement has ended."""
        if not self._done:
            self._release()
            return
        with suppress(Exception):
            self._cursor.close()
        self._done = False
        self._connections.give(self._connection)

    def _release(self) -> None:
        with suppress(Exception):
            self._cursor.close()
        with suppress(Exception):
            self._connection.close()


def _with_options(address: str, login: Mapping[str, str], connect_seconds: int) -> str:
    """Return an address with a login and a bound on the time to connect; both forms of addresses of libpq work."""
    given = dict(login)
    if not _OPTION.search(address):
        given["connect_timeout"] = str(connect_seconds)
    if "://" not in address:
        values = ((name, value.replace("\\", "\\\\").replace("'", "\\'")) for name, value in given.items())
        return " ".join([address, *(f"{name}='{value}'" for name, value in values)])
    mark = "&" if "?" in address else "?"
    return address + mark + "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())


def _column(one: Mapping[str, Any]) -> Column:
    """Return a column; a type without an equal here is read as its text."""
    name, kind, shown = one["column_name"], one["type_name"], one["shown"]
    is_base = one["type_kind"] == "b"
    if is_base and kind in _PLAIN:
        type_, cast = _PLAIN[kind]
        read = _cast_to(cast) if one["is_domain"] else as_it_is
        return Column(name, shown, type_, read, read, read, "order" if kind in _ORDERED else "")
    if is_base and kind == "oid":
        return Column(name, shown, pa.int64(), _cast_to("bigint"))
    if is_base and kind == "numeric":
        exact = _decimal(one["modifier"])
        return Column(name, shown, exact or pa.string(), _cast_to("text"), compared="order" if exact else "")
    if is_base and kind in _TEXTS:
        return Column(name, shown, pa.string(), _cast_to("text"), key=_by_code_points, compared="order")
    if one["category"] == "A":
        return Column(name, shown, pa.string(), _as_json)
    return Column(name, shown, pa.string(), _cast_to("text"))


def _decimal(modifier: int) -> pa.DataType | None:
    """Return the type of numeric(p, s), or None if it has no p and s or too many digits."""
    if modifier < _HEADER:
        return None
    precision, scale = (modifier - _HEADER) >> 16 & 0xFFFF, (modifier - _HEADER) & 0x7FF
    if scale >= 1 << 10:  # negative
        return None
    return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS and scale <= precision else None


def _cast_to(kind: str) -> Any:
    def read(column: exp.Expr) -> exp.Expr:
        return exp.cast(column, exp.DataType.build(kind, dialect="postgres"))

    return read


def _by_code_points(column: exp.Expr) -> exp.Expr:
    """Return a text as it is, ordered and compared by its code points, as here."""
    text = exp.cast(column, exp.DataType.build("text", dialect="postgres"))
    return exp.Collate(this=text, expression=exp.to_identifier("C", quoted=True))


def _as_json(column: exp.Expr) -> exp.Expr:
    return exp.cast(exp.func("to_json", column), exp.DataType.build("text", dialect="postgres"))
