"""SQLite files, by the module of Python's standard library.

The ADBC driver takes the type of a column from the first rows and fails at a later row of another type. SQLite stores
any value in any column, so each value is checked here against the declared type.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from flightllm.attached.columns import Column, SourceTable
from flightllm.attached.literals import plain
from flightllm.attached.source import MixedValuesError, Rows
from flightllm.errors import InvalidInputError

_CATALOG: Final = """
SELECT m.name, p.name, p.type FROM main.sqlite_schema AS m JOIN pragma_table_xinfo(m.name) AS p
 WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND p.hidden <> 1
 ORDER BY m.name, p.cid"""
_ROWS: Final = 4_096
_WAIT: Final = 5.0
"""Seconds to wait for another program's write."""
_DECIMAL: Final = re.compile(r"NUM|DEC")
_TIME: Final = re.compile(r"DATE|TIME")


class SqliteSource:
    """A SQLite file, opened for reading."""

    dialect = "sqlite"
    default_schema = "main"
    literal = staticmethod(plain)

    def __init__(self, path: Path) -> None:
        self._path = path

    def _connect(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise InvalidInputError("the server has no such file")
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, timeout=_WAIT, check_same_thread=False)

    def tables(self) -> list[SourceTable]:
        """Read the tables and views."""
        columns = defaultdict[str, list[Column]](list)
        with closing(self._connect()) as connection:
            for table, column, kind in connection.execute(_CATALOG):
                columns[table].append(_column(column, kind or ""))
            counts = _counts(connection)
        return [SourceTable("main", name, tuple(many), counts.get(name)) for name, many in columns.items()]

    def rows(self, text: str) -> Rows:
        """Begin a SELECT."""
        return _SqliteRows(self._connect(), text)

    def close(self) -> None:
        """Do nothing: each connection closes with its scan."""


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the row counts that ANALYZE left."""
    try:
        found = connection.execute("SELECT tbl, max(CAST(stat AS INTEGER)) FROM sqlite_stat1 GROUP BY tbl").fetchall()
    except sqlite3.Error:  # the file was never analyzed
        return {}
    return {name: count for name, count in found if count is not None}


class _SqliteRows:
    """The rows of one SELECT."""

    def __init__(self, connection: sqlite3.Connection, text: str) -> None:
        self._connection, self._text = connection, text

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows: whole numbers, floats, texts and bytes as SQLite has them, one type per column and batch."""
        cursor = self._connection.execute(self._text)
        names = [one[0] for one in cursor.description]
        while rows := cursor.fetchmany(_ROWS):
            columns = [_array(place, values) for place, values in enumerate(zip(*rows, strict=True))]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def cancel(self) -> None:
        """Stop the statement."""
        with suppress(sqlite3.ProgrammingError):  # the statement has ended, and the connection is closed
            self._connection.interrupt()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _array(place: int, values: Sequence[Any]) -> pa.Array:
    """Return the values of a column.

    Raises:
        MixedValuesError: there are values of several types, or of numbers that have no common type.
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float} and all(type(value) is not int or int(float(value)) == value for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if len(kinds) > 1:
        raise MixedValuesError(place)
    return pa.array(values)


def _column(name: str, kind: str) -> Column:
    """Return a column by SQLite's rules of affinity; values of another kind are an error when they are read."""
    upper = kind.upper()
    if "INT" in upper:
        return Column(name, kind, pa.int64(), compared="order")
    if any(part in upper for part in ("CHAR", "CLOB", "TEXT")):
        return Column(name, kind, pa.string(), key=_binary, compared="order")
    if "BLOB" in upper:
        return Column(name, kind, pa.binary())
    if any(part in upper for part in ("REAL", "FLOA", "DOUB")) or _DECIMAL.search(upper):
        return Column(name, kind, pa.float64(), compared="order")
    if "BOOL" in upper:
        return Column(name, kind, pa.bool_())
    if _TIME.search(upper):
        return Column(name, kind, pa.string(), _as_text, _as_text, _text_key, "order")
    return Column(name, kind or "no type", pa.string(), _as_text, _as_text, _text_key, "order")


def _as_text(column: exp.Expr) -> exp.Expr:
    """Return a value as a text; a float has all of its digits, of which a cast would keep 15."""
    is_float = exp.EQ(this=exp.func("typeof", column), expression=exp.Literal.string("real"))
    text = exp.cast(column, exp.DataType.Type.TEXT)
    return exp.paren(exp.case().when(is_float, exp.Anonymous(this="quote", expressions=[column.copy()])).else_(text))


def _text_key(column: exp.Expr) -> exp.Expr:
    return _binary(_as_text(column))


def _binary(column: exp.Expr) -> exp.Expr:
    """Return a text, compared by its bytes, whatever the collation of its column."""
    return exp.Collate(this=column, expression=exp.Var(this="BINARY"))
