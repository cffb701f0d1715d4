"""The catalog's record of each table, and the schema providers in which DataFusion looks tables up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal, Protocol

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table
from pyarrow import dataset

from flightllm.attached.scan import AttachedTable
from flightllm.catalog.view_reads import Reads, Weight
from flightllm.common.json_columns import ColumnTypes, json_types
from flightllm.common.names import STORED_SUFFIX, TableName, table_name
from flightllm.common.principal import LOCAL
from flightllm.errors import (
    FlightLLMError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
)
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.sql.keys import NO_KEYS, TableKeys
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import VERSION, passed
from flightllm.sql.query_columns import Known
from flightllm.storage.folder import link_name
from flightllm.storage.rows import StoredFile

EntryKind = Literal["file", "managed", "external", "view", "ai_view", "system", "attached"]
"""The configuration names a `file`; an admin's statement creates an `external` table.

An `attached` table lies in another database.
"""
_TYPES: dict[EntryKind, str] = {
    "file": "BASE TABLE",
    "managed": "BASE TABLE",
    "external": "BASE TABLE",
    "view": "VIEW",
    "ai_view": "VIEW",
    "system": "SYSTEM TABLE",
    "attached": "BASE TABLE",
}


class SystemTables(Protocol):
    """Tables that the server fills. Each look-up takes a snapshot. Thread-safe."""

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""

    def snapshot(self, name: str) -> pa.Table:
        """Return the present rows of the table `name`."""


def system_rows(system: SystemTables | None, name: str) -> pa.Table:
    """Return the present rows of a system table.

    Raises:
        NotFoundError: there is no such system table.
    """
    if system is None:
        raise NotFoundError(f"there is no table system.{name}: the catalog has no system tables")
    return system.snapshot(name)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table as clients see it; `type` is BASE TABLE, VIEW or SYSTEM TABLE."""

    name: TableName
    type: str
    schema: pa.Schema
    keys: TableKeys = NO_KEYS


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a table that clients create and change, in order.

    `identity` changes when a new table is created under the name; `revision` changes with each change.
    """

    files: tuple[StoredFile, ...]
    identity: str
    revision: str
    definition: str = ""
    """CREATE TABLE's column list as written, with the columns' defaults."""
    folder: Path | None = None
    """The folder of links through which the files are read; None if there are no files."""
    damaged: frozenset[str] = frozenset()
    """Files whose bytes differ from what was written."""

    def path(self, index: int) -> Path:
        """Return the path through which a file is read."""
        return (self.folder or Path()) / link_name(index, Path(self.files[index].name).suffix)

    @property
    def complete(self) -> bool:
        """Return whether all files exist with the sizes that were written."""
        try:
            return all(self.path(index).stat().st_size == file.bytes for index, file in enumerate(self.files))
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class ConvertedSource:
    """The Parquet copy of a CSV file, of a folder of CSV files, or of a sheet."""

    location: str = ""
    """The path of the Parquet copy; empty before the first conversion."""
    revision: str = "unread"
    """The source's revision when it was converted."""
    problem: str = ""
    """Why the source's present content cannot be read."""
    sheet: str = ""
    form: str = ""
    """See `Conversion.form`."""


class ViewPlan:
    """The cached facts about a view. A change of a table that the view reads replaces them by `renewed()`."""

    __slots__ = ("lock", "planned", "reads", "weight", "words")

    def __init__(self, reads: Reads | None = None, words: frozenset[str] | None = None) -> None:
        self.lock = Lock()
        """Held by the thread that plans this view; a thread holds the lock of one view at a time."""
        self.reads = reads
        self.words = words
        """The words of the view's text."""
        self.weight: Weight | None = None
        """The complexity together with the views that this view reads."""
        self.planned: Entry | None = None

    def renewed(self) -> "ViewPlan":
        """Return only the facts that follow from the text, which stay valid."""
        return ViewPlan(self.reads, self.words)


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered table. `query` is a view's text.

    A plain view has a provider and a schema only after it was planned. `stored` is the table as stored, below a file
    whose columns need a cast on reading.
    """

    name: TableName
    kind: EntryKind
    schema: pa.Schema
    provider: Table | None
    query: str = ""
    columns: tuple[str, ...] = ()
    stored: Table | None = None
    path: Path | None = None
    """The path of a file's or folder's rows; clients never see it."""
    owner: str = LOCAL.name
    """The principal that created the table."""
    rows: StoredRows | None = None
    """The stored rows of a managed table."""
    location: str = ""
    """Path or address of an external table, or address of a configured table; clients never see it."""
    format: str = ""
    """The ending of the file names of an external table, or of a table at an address.

    For an attached table, a text that changes with each reading of the database's tables.
    """
    restricted: str = ""
    """The query that applies a principal's row filters and masks to the table; it names the hidden table."""
    keys: TableKeys = NO_KEYS
    """The declared keys of a managed table; nothing enforces them."""
    csv: CsvOptions = NOTHING_SAID
    """The format of a CSV table's files, as far as options set it."""
    source: ConvertedSource | None = None
    """The Parquet copy of the table's files, if the table is read through a copy."""
    passed: int = VERSION
    """The version of the passes that a view's text has passed; 0 if it is stored as it was sent."""
    plan: ViewPlan = field(default_factory=ViewPlan, compare=False, repr=False)
    """The cached plan of a view."""
    attached: AttachedTable | None = field(default=None, compare=False, repr=False)
    """The table of an attached database."""

    @property
    def is_view(self) -> bool:
        """Return whether the table is a view, with or without AI calls."""
        return self.kind in {"view", "ai_view"}

    @property
    def whole(self) -> Table | None:
        """Return the table under the hidden name: the rows as stored, which restricted queries read."""
        return self.stored or self.provider

    @property
    def info(self) -> TableInfo:
        """Return the part of the entry that clients can see."""
        return TableInfo(self.name, _TYPES[self.kind], self.schema, self.keys)


Planned = Callable[[Entry, Mapping[TableName, Entry]], Entry]
"""Returns an entry with its plan if it is a view; the mapping has the other entries. Raises a `FlightLLMError`."""


def columns_in(entries: Mapping[TableName, Entry]) -> Known:
    """Return the columns and views of tables for the passes, also under a table's hidden name."""

    def found(parts: Sequence[str]) -> Entry | None:
        try:
            name = table_name(parts)
        except SqlError:
            return None
        return entries.get(TableName(name.schema, name.name.removesuffix(STORED_SUFFIX)))

    def columns_of(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
        entry = found(parts)
        if entry is None:
            return {}
        types = ColumnTypes(zip(entry.schema.names, entry.schema.types, strict=True))
        types.schema = entry.schema
        return types

    def view_of(parts: Sequence[str]) -> str:
        entry = found(parts)
        return entry.query or entry.restricted if entry else ""

    return Known(columns_of, view_of)


def view_text(view: Entry, entries: Mapping[TableName, Entry]) -> str:
    """Return the text of a view as DataFusion reads it.

    Raises:
        FlightLLMError: an earlier version stored a construct that gives wrong rows in DataFusion.
    """
    if view.passed >= VERSION:
        return view.query
    text = ParsedText(f"{_VIEW}{view.query}")  # a pass treats a view as a query in FROM
    return passed(text, columns_in(entries), version=view.passed).sql.removeprefix(_VIEW)


_VIEW = "CREATE VIEW v AS\n"

_MAKES_INTERVALS = frozenset({"interval", "make_interval", "age"})
"""A view makes intervals of other values only with one of these words."""


class ComparedTables:
    """The names of the tables with intervals, arrays or bytes, which PostgreSQL reads or compares in its own way.

    It compares bytes as the server does, so a text that only reads them needs no change.

    Each change of the tables is read once, at the next text; thread-safe.
    """

    def __init__(self, entries: Callable[[], Mapping[TableName, Entry]]) -> None:
        """Take a function that returns the present tables; a change of the tables replaces their mapping."""
        self._entries = entries
        self._read: tuple[Mapping[TableName, Entry], frozenset[str], frozenset[str]] = ({}, frozenset(), frozenset())

    def named_in(self, text: ParsedText) -> bool:
        """Return whether a text has the name of a table with intervals or arrays, in any schema and any case."""
        names, _ = self._names()
        return bool(names) and not names.isdisjoint(text.names)

    def with_bytes_in(self, text: ParsedText) -> bool:
        """Return whether a text has the name of a table with bytes, in any schema and any case."""
        _, names = self._names()
        return bool(names) and not names.isdisjoint(text.names)

    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        entries = self._entries()
        before, compared, with_bytes = self._read
        if before is not entries:
            compared, with_bytes = _compared(entries), _named(entries, pa.types.is_binary)
            self._read = entries, compared, with_bytes
        return compared, with_bytes


def _named(entries: Mapping[TableName, Entry], test: Callable[[pa.DataType], bool]) -> frozenset[str]:
    """Return the names of the tables with a column of some types."""
    return frozenset(key.name.lower() for key, entry in entries.items() if any(map(test, entry.schema.types)))


def _compared(entries: Mapping[TableName, Entry]) -> frozenset[str]:
    of_json = {
        key.name.lower()
        for key, entry in entries.items()
        if any(field.metadata for field in entry.schema) and json_types(entry.schema)
    }
    found = _named(entries, _is_compared) | of_json
    views = {one.name.name.lower(): ParsedText(one.query) for one in entries.values() if one.kind == "view"}
    while more := {
        name
        for name, text in views.items()
        if name not in found and (not text.mentions.isdisjoint(_MAKES_INTERVALS | found) or text.makes_arrays())
    }:
        found |= more
    return found


def _is_compared(given: pa.DataType) -> bool:
    return bool(pa.types.is_interval(given) or pa.types.is_nested(given))


class SchemaTables:
    """One schema as DataFusion sees it. It reads the present entries at each look-up, and registers nothing itself.

    DataFusion reads `table_names` as an attribute, not as the method of its abstract class, so this class inherits
    nothing.
    """

    def __init__(self, schema: str, entries: Callable[[], Mapping[TableName, Entry]], planned: Planned) -> None:
        self._schema = schema
        self._entries = entries
        self._planned = planned

    @property
    def owner_name(self) -> None:
        """Return no owner."""

    @property
    def table_names(self) -> list[str]:
        """Return the names of the schema's readable tables; a client's table list looks each of them up."""
        entries = self._entries()
        mine = {name.name: entry for name, entry in entries.items() if name.schema == self._schema}
        return sorted(name for name, entry in mine.items() if self._can_be_read(entry, entries))

    def _can_be_read(self, entry: Entry, entries: Mapping[TableName, Entry]) -> bool:
        try:
            check_files(entry)
            return self._planned(entry, entries).provider is not None
        except FlightLLMError:
            return False

    def table(self, name: str) -> Table | None:
        """Return a table's provider, or None if there is no such table.

        Raises:
            NotFoundError: the table's file is gone; without this check DataFusion would find no rows.
            InternalError: a file of the table is damaged.
            FlightLLMError: the table is a view that cannot be planned.
        """
        entries = self._entries()
        if entry := entries.get(TableName(self._schema, name)):
            check_files(entry)
            return self._planned(entry, entries).provider
        stored = entries.get(TableName(self._schema, name.removesuffix(STORED_SUFFIX)))
        return stored.whole if stored and name.endswith(STORED_SUFFIX) else None

    def table_exist(self, name: str) -> bool:
        """Return whether the schema has the table."""
        return self.table(name) is not None


def check_files(entry: Entry) -> None:
    """Check that the files of an entry exist and are readable.

    Raises:
        NotFoundError: the file of a table is gone.
        PermissionDeniedError: the configuration no longer lists the place of an external table.
        InvalidInputError: the file of a table cannot be reached, or its content cannot be read.
        InternalError: a file of a stored table is gone or cut short, or was found damaged.
    """
    if entry.kind == "external" and entry.provider is None:
        raise PermissionDeniedError(
            f"no place in [storage] of the server's configuration has the external table {entry.name.display!r} any"
            " more: ask an admin to list its place again"
        )
    try:
        gone = entry.path is not None and not entry.path.exists()
    except OSError as error:
        raise InvalidInputError(
            f"the file of the table {entry.name.display!r} cannot be reached: {error.strerror or type(error).__name__}"
        ) from error
    if gone:
        raise NotFoundError(f"the file of the table {entry.name.display!r} is gone from the server's disk")
    if entry.source is not None and entry.source.problem:
        raise InvalidInputError(f"the file of the table {entry.name.display!r} cannot be read: {entry.source.problem}")
    if entry.rows is not None and not entry.rows.complete:
        raise InternalError(
            f"the table {entry.name.display!r} is damaged: a file of it is missing or cut short on the server's disk,"
            " or the server cannot use it, as its log tells; restore it from a backup, or drop it"
        )
    check_bytes(entry)


def check_bytes(entry: Entry) -> None:
    """Check that no file of an entry was found damaged; reads no file.

    Raises:
        InternalError: the bytes of a file differ from what was written.
    """
    if entry.rows is not None and entry.rows.damaged:
        raise bytes_changed(entry.name)


def bytes_changed(name: TableName) -> InternalError:
    """Return the error that the bytes of a table's file differ from what was written."""
    return InternalError(
        f"the table {name.display!r} is damaged: bytes of its files have changed on the server's disk since"
        " they were written (system.data_files names the files to admins); restore it from a backup, or drop it"
    )


class SystemSchema:
    """The schema `system`: every look-up returns a fresh snapshot, so each mention in a query sees one state."""

    def __init__(self, tables: SystemTables) -> None:
        self._tables = tables
        self._empty = {name: _empty_table(schema) for name, schema in tables.schemas.items()}
        """Tables without rows. DataFusion makes no partition of a data set without rows, and then cannot sort it."""

    @property
    def owner_name(self) -> None:
        """Return no owner."""

    @property
    def table_names(self) -> list[str]:
        """Return the names of the system tables."""
        return sorted(self._tables.schemas)

    def table(self, name: str) -> Table | None:
        """Return a snapshot of a system table, or None if there is no such table."""
        if not self.table_exist(name):
            return None
        # A data set, not a table made through a context: DataFusion can ask from inside its own runtime.
        rows = self._tables.snapshot(name)
        return Table(dataset.dataset(rows)) if rows.num_rows else self._empty[name]

    def table_exist(self, name: str) -> bool:
        """Return whether there is such a system table."""
        return name in self._tables.schemas


@cache
def _empty_table(schema: pa.Schema) -> Table:
    context = SessionContext()
    context.register_record_batches("empty", [[pa.RecordBatch.from_pylist([], schema=schema)]])
    empty: Table = context.catalog().schema().table("empty")
    return empty
