"""A DB-API 2.0 module over ADBC: Python's values instead of Arrow's, plain messages, and honest transactions."""

import datetime as dt
import re
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode
from adbc_driver_manager.dbapi import _blocking_call  # type: ignore[attr-defined] # see `Cursor._read`

from flightllm.alchemy.values import bound, rows
from flightllm.common.flight_address import plain

apilevel: Final = "2.0"
threadsafety: Final = 1
paramstyle: Final = "qmark"
Warning = adbc.Warning  # noqa: A001 -- the DB-API names it so
Error = adbc.Error
InterfaceError = adbc.InterfaceError
DatabaseError = adbc.DatabaseError
DataError = adbc.DataError
OperationalError = adbc.OperationalError
IntegrityError = adbc.IntegrityError
InternalError = adbc.InternalError
ProgrammingError = adbc.ProgrammingError
NotSupportedError = adbc.NotSupportedError
Binary = bytes
Date = dt.date
Time = dt.time
Timestamp = dt.datetime

_MESSAGE_BYTES = 4 << 20
"""Of one message of parameters; the driver takes at most 16 MiB."""
_STATE = "x-flightllm-sqlstate"
_PREFIX = re.compile(r"^(?:[A-Z_ ]+: )?\[FlightSQL\] ?")
"""The text that ADBC puts before a server's message."""
_CHANGES = ("insert", "update", "delete", "merge", "truncate", "create", "drop", "alter", "grant", "revoke")
_LEADING = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*([a-z]+)", re.IGNORECASE | re.DOTALL)
_CLASSES = {
    "08": OperationalError,
    "0A": NotSupportedError,
    "22": DataError,
    "23": IntegrityError,
    "28": OperationalError,
    "40": OperationalError,
    "42": ProgrammingError,
    "53": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
}
"""The classes of errors by the first two characters of their SQLSTATE."""


class ChangesKeptWarning(UserWarning):
    """A ROLLBACK came after changes, which stay: the server makes each statement take effect by itself."""


def connect(uri: str, database: Mapping[str, str], connection: Mapping[str, str]) -> "Connection":
    """Connect to a server; `database` and `connection` are options of ADBC."""
    with _errors():
        return Connection(adbc.connect(uri, db_kwargs=dict(database), conn_kwargs=dict(connection), autocommit=True))


class Connection:
    """A connection, which is one session of the server; one thread can use it at a time."""

    def __init__(self, connection: adbc.Connection) -> None:
        self.adbc = connection
        """The connection of ADBC below, for uploads and other work with Arrow."""
        self.autocommit = False
        """Whether the user asked for it; if so, a rollback says nothing."""
        self._changes = 0

    def cursor(self) -> "Cursor":
        """Return a cursor."""
        with _errors():
            return Cursor(self, self.adbc.cursor())

    def changed(self) -> None:
        """Note that a statement changed something."""
        self._changes += 1

    def commit(self) -> None:
        """Do nothing: each statement took effect by itself."""
        self._changes = 0

    def rollback(self) -> None:
        """Undo nothing. Warn by `ChangesKeptWarning` if there were changes since the last commit."""
        changes, self._changes = self._changes, 0
        if changes and not self.autocommit:
            text = "1 change stays" if changes == 1 else f"{changes} changes stay"
            advice = "ask for isolation_level='AUTOCOMMIT' to say that you know"
            message = f"ROLLBACK undid nothing, {text}: each statement takes effect by itself; {advice}"
            warnings.warn(message, ChangesKeptWarning, stacklevel=2)

    def close(self) -> None:
        """Close the connection and its cursors. Idempotent."""
        with _errors():
            self.adbc.close()


class Cursor:
    """A cursor, whose rows come from the server while they are fetched."""

    def __init__(self, connection: Connection, cursor: adbc.Cursor) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._cursor = cursor
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        weakref.finalize(self, _drop, cursor).atexit = False  # some tools drop cursors that they do not close

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> None:
        """Run one statement; `parameters` are values of its `?`."""
        with _errors():
            values = _bound([parameters]).to_batches()[0] if parameters else None
            self._cursor.execute(sql, values)
            self.description = self._cursor.description or None
            self.rowcount = self._cursor.rowcount
            self._rows = self._read() if self.description else iter(())
        self._note(sql)

    def executemany(self, sql: str, many: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters; all rows go to the server in one call."""
        self.description, self._rows = None, iter(())
        if not many:
            self.rowcount = 0
            return
        with _errors():
            table = _bound(many)
            size = max(1, len(table) * _MESSAGE_BYTES // max(table.nbytes, 1))
            batches = table.combine_chunks().to_batches(max_chunksize=size)
            self._cursor.executemany(sql, pa.RecordBatchReader.from_batches(table.schema, batches))
            self.rowcount = self._cursor.rowcount
        self._note(sql)

    def _note(self, sql: str) -> None:
        first = _LEADING.match(sql)
        if first is not None and first[1].lower() in _CHANGES:
            self.connection.changed()

    def _read(self) -> Iterator[tuple[Any, ...]]:
        results = self._cursor._results  # noqa: SLF001 -- ADBC's public reader raises errors of other classes
        if results is None:
            return
        reader = results.reader
        while True:
            try:  # `_blocking_call` cancels the statement on Ctrl-C
                batch = _blocking_call(reader.read_next_batch, (), {}, self._cursor.adbc_cancel)
            except StopIteration:
                return
            yield from rows(batch)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        self._need_result()
        with _errors():
            return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return up to `size` rows, by default `arraysize`."""
        self._need_result()
        with _errors():
            count = self.arraysize if size is None else size
            return [row for _, row in zip(range(count), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows that are left."""
        self._need_result()
        with _errors():
            return list(self._rows)

    def _need_result(self) -> None:
        if self.description is None:
            raise ProgrammingError("the statement has no rows", status_code=AdbcStatusCode.INVALID_STATE)

    def schema(self, sql: str) -> pa.Schema:
        """Return the columns of a query, which does not run."""
        with _errors():
            return self._cursor.adbc_execute_schema(sql)

    def cancel(self) -> None:
        """Cancel the statement that runs, from any thread."""
        self._cursor.adbc_cancel()

    def close(self) -> None:
        """Close the cursor; a statement whose rows were not all fetched ends."""
        self._rows = iter(())
        with _errors():
            self._cursor.close()

    def setinputsizes(self, _sizes: Sequence[Any]) -> None:
        """Do nothing; the DB-API asks for it."""

    def setoutputsize(self, _size: int, _column: int | None = None) -> None:
        """Do nothing; the DB-API asks for it."""


def _drop(cursor: adbc.Cursor) -> None:
    with suppress(Error):
        cursor.close()


def _bound(many: Sequence[Sequence[Any]]) -> pa.Table:
    try:
        return bound(many)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        message = f"the parameters cannot be sent: {error}"
        raise DataError(message, status_code=AdbcStatusCode.INVALID_ARGUMENT) from error


@contextmanager
def _errors() -> Iterator[None]:
    """Raise ADBC's errors with the server's plain message and SQLSTATE, as the class that the SQLSTATE says."""
    try:
        yield
    except Error as error:
        state = error.sqlstate or _state(error)
        usual = OperationalError if error.status_code is AdbcStatusCode.UNAUTHENTICATED else type(error)
        kind = _CLASSES.get((state or "")[:2], usual)
        message = _PREFIX.sub("", plain(str(error)))
        raise _made(kind, message, error.status_code, sqlstate=state, details=error.details) from error


def _made(kind: Any, message: str, status: AdbcStatusCode, **more: Any) -> adbc.Error:
    if issubclass(kind, NotSupportedError):  # which always has the status NOT_IMPLEMENTED
        return NotSupportedError(message, **more)
    made: adbc.Error = kind(message, status_code=status, **more)
    return made


def _state(error: adbc.Error) -> str | None:
    for name, value in error.details or ():
        if name == _STATE:
            return value.decode()
    return None
