"""The rows of one table of a source, as a data set that DataFusion scans.

DataFusion asks a data set for some columns and the rows that fulfil a condition. The scan sends one SELECT for them,
and streams what comes back.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyarrow import dataset
from sqlglot import exp

from flightllm.attached.columns import Column, SourceTable
from flightllm.attached.conditions import Tree, applied, fields_of, is_exact, read_tree, where
from flightllm.attached.keys import Keys, among, shown
from flightllm.attached.select import select_text
from flightllm.attached.source import MixedValuesError, Rows, Source
from flightllm.common.redaction import redacted
from flightllm.datafusion.scans import note_scan, notes_scans, scan_limit
from flightllm.errors import FlightLLMError, MissingExtraError, SqlError, UnsupportedError

_log = structlog.get_logger(__name__)
_WAIT_SECONDS: Final = 0.01
"""A scan gives DataFusion a batch without rows after this time: DataFusion's threads must not wait for a source."""
_PUT_SECONDS: Final = 0.1
_WAITING: Final = 2
"""The batches that wait for DataFusion; more stay at the source."""
_LONGEST: Final = 500
_STATEMENT: Final = re.compile(r"\s*(?:\bLINE \d+:|Query was:)")
"""The begin of the part of an error that quotes the statement."""
_QUERY: Final = re.compile(r"query '.*': ")
_OF_VALUES: Final = ("22", "23")
"""The classes of SQLSTATE for errors about values: their texts quote the values."""
_EMBEDDED: Final = frozenset({"duckdb", "_duckdb", "sqlite3"})
_ABOUT_VALUES: Final = (
    "Conversion Error",
    "Invalid Input Error",
    "Out of Range Error",
    "Constraint Error",
    "Could not decode",
)
"""The begins of the errors of DuckDB, and of Python's module for SQLite, that quote values."""
_STATUSES: Final = frozenset({"IO", "TIMEOUT", "UNAUTHENTICATED", "UNAUTHORIZED", "NOT_FOUND", "NOT_IMPLEMENTED"})
"""The kinds of ADBC's errors that are not about values."""
_HARMLESS: Final = re.compile(
    r"read-only transaction|permission denied|connection|timeout|cancel|shut ?down|too many|memory|disk", re.IGNORECASE
)
_CHANGED: Final = re.compile(r"does not exist|no such (?:table|column)|not found|not have a column", re.IGNORECASE)
_LAST_DAY: Final = (1 << 31) - 20_000
_LAST_MOMENT: Final = (1 << 63) - 2 * 10**15


def source_error(database: str, error: BaseException) -> FlightLLMError:
    """Return the error of a source as clients see it: one line, without secrets."""
    if isinstance(error, UnsupportedError | MissingExtraError):
        return error
    text = _QUERY.sub("query: ", " ".join(str(error).split()))
    _log.warning("an attached database failed", database=database, error=redacted(text))
    if not _can_be_shown(error, text):
        text = "a value of one of its rows is not valid there; the server's log has its error"
    else:  # the statement can have constants of a row filter, which its reader must not see
        text = redacted(_STATEMENT.split(text, maxsplit=1)[0])[:_LONGEST] or type(error).__name__
    advice = f"; if its tables have changed, write REFRESH DATABASE {database}" if _CHANGED.search(text) else ""
    return SqlError(f"the attached database {database!r} failed: {text}{advice}")


def _can_be_shown(error: BaseException, text: str) -> bool:
    """Return whether an error quotes no value: row filters and masks can hide the value from the query's user."""
    if state := getattr(error, "sqlstate", None):
        return not state.startswith(_OF_VALUES)
    if type(error).__module__.partition(".")[0] in _EMBEDDED or isinstance(error, FlightLLMError):
        return not text.startswith(_ABOUT_VALUES)
    status = getattr(getattr(error, "status_code", None), "name", "")
    return status in _STATUSES or _HARMLESS.search(text) is not None


class AttachedTable(dataset.Dataset):  # type: ignore[misc]
    """A table of a source. DataFusion uses the members of a data set that this class overrides, and no others."""

    def __init__(self, database: str, source: Source, table: SourceTable, keys: Keys | None = None) -> None:
        self.keys = keys
        self.database, self.source, self.table = database, source, table
        self._schema = table.arrow_schema

    @property
    def schema(self) -> pa.Schema:
        """Return all columns."""
        return self._schema

    @property
    def rows(self) -> int | None:
        """Return the estimated number of rows."""
        return self.table.rows

    def scanner(self, columns: Sequence[str] | None = None, **options: Any) -> "_Scan":
        """Return a scan of some columns; it begins when its batches are pulled."""
        names = self._schema.names if columns is None else list(columns)
        scan = _Scan(self, names, options.get("filter"), options.get("limit"))
        if notes_scans():
            scan.limit = scan_limit()
            scan.note()
        return scan

    def get_fragments(self, *_: Any) -> "list[_Part]":
        """Return one part: one SELECT reads a table. The thread that plans the scan calls this."""
        return [_Part(self, scan_limit())]

    def __reduce__(self) -> Any:
        raise TypeError("a table of an attached database cannot be copied to another process")


@dataclass(frozen=True, slots=True)
class _Part:
    table: AttachedTable
    limit: int | None

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> "_Scan":
        del schema
        return self.table.scanner(**options, limit=self.limit)


class _Scan:
    """One SELECT of a table."""

    def __init__(
        self, scanned: AttachedTable, names: Sequence[str], condition: pc.Expression | None, limit: int | None
    ) -> None:
        table = scanned.table
        self._database, self._source, self._table, self._keys = scanned.database, scanned.source, table, scanned.keys
        constant: Any = condition if isinstance(condition, pa.Scalar) else None  # as DataFusion hands over constants
        self._names, self._condition = names, condition if constant is None else None
        self._is_empty = constant is not None and not constant.as_py()
        self.limit = limit
        """The number of rows that are enough, or None."""
        self.projected_schema = pa.schema([table.arrow_schema.field(name) for name in names])

    def note(self) -> None:
        """Note the SELECT for those who explain the query; a column that cannot be read is an error of its run."""
        with suppress(UnsupportedError):
            tree = None if self._condition is None else read_tree(self._condition)
            among_keys = None if self._keys is None else shown(self._columns[self._keys.column])
            note_scan(self._database, self._text(self._table.chosen(self._needed(tree)), tree, among_keys))

    @property
    def _columns(self) -> dict[str, Column]:
        return {column.name: column for column in self._table.columns}

    def _text(self, chosen: Sequence[Column], tree: Tree | None, among_keys: exp.Expr | None) -> str:
        """Return the SELECT; it has a limit only if the source applies the whole condition as this server does."""
        columns = self._columns
        parts = [where(tree, columns, self._source.literal), among_keys]
        known = [part for part in parts if part is not None]
        whole = self._condition is None or is_exact(tree, columns, self._source.literal)
        limit = self.limit if whole and self._keys is None else None
        condition = exp.and_(*known) if known else None
        return select_text(self._table, chosen, condition, self._source.dialect, limit)

    def _begun(self, chosen: Sequence[Column], tree: Tree | None) -> Rows:
        """Begin the SELECT, with the keys of a join if they are known."""
        keys, among_keys = None if self._keys is None else self._keys.known, None
        if self._keys is not None and keys is not None:
            if not keys:
                return _NoRows()
            among_keys = among(self._columns[self._keys.column], keys, self._source.literal)
        text = self._text(chosen, tree, among_keys)
        _log.debug("a scan begins", database=self._database, sql=text)
        return self._source.rows(text)

    def _needed(self, tree: Tree | None) -> list[str]:
        """Return the columns to read: the wanted ones and those of the condition; all if these are not known."""
        if self._condition is None:
            return list(self._names)
        others = self._table.arrow_schema.names if tree is None else fields_of(tree)
        return [*self._names, *sorted(set(others) - set(self._names))]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; batches without rows come while the source works.

        Raises:
            SqlError: the source failed, or a value does not fit its column.
            UnsupportedError: a column cannot be read.
        """
        if self._is_empty:
            return
        tree = None if self._condition is None else read_tree(self._condition)
        chosen = self._table.chosen(self._needed(tree))
        schema = pa.schema([(column.name, column.type) for column in chosen])
        kept = None if self._condition is None else applied(tree, self._condition, schema)
        reader = _Reader(self._database, lambda: self._begun(chosen, tree))
        nothing = self.projected_schema.empty_table().to_batches() or [
            pa.RecordBatch.from_pylist([], schema=self.projected_schema)
        ]
        try:
            for batch in reader.batches():
                if isinstance(batch, MixedValuesError):
                    raise misfit(chosen[batch.place])
                if batch is None:
                    yield nothing[0]
                    continue
                found = _fitted(batch, chosen, schema)
                if kept is not None:
                    found = found.filter(kept)
                yield found.select(list(self._names))
        finally:
            reader.stop()


class _NoRows:
    """The rows of a SELECT that needs no source: a join has no keys."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        yield from ()

    def cancel(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Reader:
    """A thread that pulls the rows of a SELECT, a few batches ahead."""

    def __init__(self, database: str, begin: Callable[[], Rows]) -> None:
        self._database = database
        self._begin = begin
        self._found = Queue[pa.RecordBatch | BaseException | None](_WAITING)
        self._stopped = Event()
        self._rows: Rows | None = None
        self._thread = Thread(target=self._read, name=f"attached-{database}", daemon=True)

    def batches(self) -> Iterator[pa.RecordBatch | MixedValuesError | None]:
        """Yield the rows, None whenever the source takes its time, and the error of values of several types."""
        self._thread.start()
        while True:
            try:
                found = self._found.get(timeout=_WAIT_SECONDS)
            except Empty:
                yield None
                continue
            if found is None:
                return
            if isinstance(found, BaseException) and not isinstance(found, MixedValuesError):
                raise source_error(self._database, found) from None
            yield found

    def stop(self) -> None:
        """End the source's work; do not wait for it."""
        self._stopped.set()
        if (rows := self._rows) is not None and self._thread.is_alive():
            rows.cancel()

    def _read(self) -> None:
        last: BaseException | None = None
        try:
            self._rows = self._begin()
            try:
                for batch in () if self._stopped.is_set() else self._rows.batches():
                    if not self._put(batch):
                        self._rows.cancel()  # before its rows are closed, which would read them to their end
                        return
            finally:
                self._rows.close()
        except BaseException as error:  # noqa: BLE001 - the scan raises it
            last = error
        self._put(last)

    def _put(self, found: pa.RecordBatch | BaseException | None) -> bool:
        """Hand over a batch; return False if nobody wants more."""
        while not self._stopped.is_set():
            with suppress(Full):
                self._found.put(found, timeout=_PUT_SECONDS)
                return True
        return False


def _fitted(batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns' names and types."""
    if not columns:
        return batch.select([])
    arrays = [_cast(batch.column(place), column) for place, column in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(values: pa.Array, column: Column) -> pa.Array:
    if values.type == column.type and not pa.types.is_temporal(values.type):
        return values
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    given, wanted = values.type, column.type
    of_text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    try:
        if pa.types.is_date32(wanted) or pa.types.is_timestamp(wanted):
            _check_finite(values, column)
        if pa.types.is_boolean(wanted) and pa.types.is_integer(given):
            _check_truth(values, column)
        if not of_text or pa.types.is_string(wanted) or pa.types.is_decimal(wanted):
            return values.cast(wanted)
    except pa.ArrowException:
        pass
    raise misfit(column)


def _check_truth(values: pa.Array, column: Column) -> None:
    """Refuse whole numbers that are not 0 or 1, which a cast would make true."""
    ends = pc.min_max(values).as_py()
    if ends["max"] is not None and (ends["max"] > 1 or ends["min"] < 0):
        raise misfit(column)


def _check_finite(values: pa.Array, column: Column) -> None:
    """Refuse PostgreSQL's and DuckDB's infinity, which the drivers give as a day or moment at the end of the range."""
    numbers = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    end = _LAST_DAY if pa.types.is_date32(values.type) else _LAST_MOMENT
    ends = pc.min_max(numbers).as_py()
    if ends["max"] is not None and (ends["max"] > end or ends["min"] < -end):
        raise misfit(column)


def misfit(column: Column) -> SqlError:
    """Return the error that a value does not fit its column; it does not show the value."""
    return SqlError(
        f"the column {column.name!r} has the type {column.source_type} at its source, and a row has a value that does"
        f" not fit {column.type} here: make a view there that casts the column to text, and read the view"
    )
