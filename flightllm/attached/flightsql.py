"""Flight SQL servers, by ADBC: another FlightLLM, or any other server of this protocol."""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from flightllm.attached.columns import Column, Compared, SourceTable
from flightllm.attached.literals import with_times
from flightllm.attached.source import Rows

_SYSTEM: Final = frozenset({"information_schema", "pg_catalog", "system"})
_TEXTS: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_AS_THEY_ARE: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_time64,
    pa.types.is_decimal128,
)
_ORDERED: Final = (pa.types.is_integer, pa.types.is_date32)
"""The types that all servers order alike: floats differ in NaN, and texts in their collations."""


class FlightSqlSource:
    """A Flight SQL server; each scan has a connection of its own."""

    dialect = ""
    """Standard SQL, which the servers of this protocol have in common."""
    literal = staticmethod(with_times)

    def __init__(self, address: str, schema: str, login: Mapping[str, str], connect_seconds: int) -> None:
        import adbc_driver_flightsql.dbapi as driver

        self._driver = driver
        self._address = address
        timeout = "adbc.flight.sql.rpc.timeout_seconds.connect"
        self._options = {**login, timeout: str(float(connect_seconds))}
        self.default_schema = schema or "public"

    def _connect(self) -> Any:
        return self._driver.connect(self._address, db_kwargs=dict(self._options), autocommit=True)

    def tables(self) -> list[SourceTable]:
        """Read the tables and views with their columns."""
        found = list[SourceTable]()
        with closing(self._connect()) as connection:
            objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
            for catalog in objects:
                for schema in catalog["catalog_db_schemas"] or ():
                    name = schema["db_schema_name"] or ""
                    if name.lower() in _SYSTEM:
                        continue
                    for table in schema["db_schema_tables"] or ():
                        kept = connection.adbc_get_table_schema(
                            table["table_name"], catalog_filter=catalog["catalog_name"], db_schema_filter=name or None
                        )
                        found.append(SourceTable(name, table["table_name"], tuple(map(_column, kept))))
        return found

    def rows(self, text: str) -> Rows:
        """Begin a SELECT."""
        return _FlightRows(self._connect(), text)

    def close(self) -> None:
        """Do nothing: each connection closes with its scan."""


class _FlightRows:
    """The rows of one SELECT."""

    def __init__(self, connection: Any, text: str) -> None:
        self._connection, self._text = connection, text
        self._cursor = connection.cursor()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        self._cursor.execute(self._text)
        with self._cursor.fetch_record_batch() as reader:
            yield from reader

    def cancel(self) -> None:
        """Ask the server to stop."""
        with suppress(Exception):  # the statement can have ended
            self._cursor.adbc_cancel()

    def close(self) -> None:
        """Close the connection."""
        for one in (self._cursor, self._connection):
            with suppress(Exception):
                one.close()


def _column(field: pa.Field) -> Column:
    kind = field.type
    if any(test(kind) for test in _TEXTS):
        return Column(field.name, str(kind), pa.string(), compared="equality")
    if any(test(kind) for test in _BYTES):
        return Column(field.name, str(kind), pa.binary())
    if any(test(kind) for test in _AS_THEY_ARE):
        compared: Compared = "order" if any(test(kind) for test in _ORDERED) else ""
        return Column(field.name, str(kind), kind, compared=compared)
    return Column(
        field.name, str(kind), pa.string(), problem="make a view on its server that casts it to text", read=_none
    )


def _none(column: exp.Expr) -> exp.Expr:
    """Return a column that is never read."""
    return column
