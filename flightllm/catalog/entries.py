"""What the catalog knows of each table, and the providers through which DataFusion looks tables up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa
from datafusion import SessionContext
from datafusion.catalog import Table
from pyarrow import dataset

from flightllm.catalog.view_plan import ViewPlan
from flightllm.common.names import STORED_SUFFIX, TableName
from flightllm.common.principal import LOCAL
from flightllm.convert.options import NOTHING_SAID, CsvOptions
from flightllm.errors import FlightLLMError, InternalError, InvalidInputError, NotFoundError, PermissionDeniedError
from flightllm.sql.keys import NO_KEYS, Keys
from flightllm.storage.folder import link_name
from flightllm.storage.rows import StoredFile

EntryKind = Literal["file", "managed", "external", "view", "ai_view", "system"]
"""A `file` is named by the configuration, an `external` table by an administrator's statement."""
_TYPES: dict[EntryKind, str] = {
    "file": "BASE TABLE",
    "managed": "BASE TABLE",
    "external": "BASE TABLE",
    "view": "VIEW",
    "ai_view": "VIEW",
    "system": "SYSTEM TABLE",
}


class SystemTables(Protocol):
    """Tables that the server itself, or a part of it, fills; each look-up takes a snapshot. Thread-safe."""

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of the table `name` as they are now."""


def system_rows(system: SystemTables | None, name: str) -> pa.Table:
    """Return the rows of a system table as they are now.

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
    keys: Keys = NO_KEYS


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a table that clients make and change, in order.

    `identity` stays the same until a table is made anew under the name; `revision` is another one after each change.
    """

    files: tuple[StoredFile, ...]
    identity: str
    revision: str
    definition: str = ""
    """CREATE TABLE's column list as written: it has the columns' defaults."""
    folder: Path | None = None
    """Has the links through which the files are read; None where there are no files."""

    def path(self, index: int) -> Path:
        """Return where a file is read."""
        return (self.folder or Path()) / link_name(index, Path(self.files[index].name).suffix)

    @property
    def complete(self) -> bool:
        """Tell whether all files are there, as long as they were written."""
        try:
            return all(self.path(index).stat().st_size == file.bytes for index, file in enumerate(self.files))
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Source:
    """The Parquet file that stands for the rows of a CSV file, of a folder of these, or of a sheet."""

    location: str = ""
    """Of the Parquet file; empty before the first time."""
    revision: str = "unread"
    """Of the source when it was read."""
    problem: str = ""
    """Why the present content of the source cannot be read."""
    sheet: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered table. `query` is a view's text.

    A plain view has a provider, and the schema that its tables give it, only where it was planned. `stored` is the
    table below a file whose columns have to be cast on reading.
    """

    name: TableName
    kind: EntryKind
    schema: pa.Schema
    provider: Table | None
    query: str = ""
    columns: tuple[str, ...] = ()
    stored: Table | None = None
    path: Path | None = None
    """Where a file's or folder's rows are; clients never see it."""
    owner: str = LOCAL.name
    """Who made it."""
    rows: StoredRows | None = None
    """Of a managed table."""
    location: str = ""
    """Path or address of an external table, address of one of the configuration; clients never see it."""
    format: str = ""
    """How the names of the files of an external table, or of one at an address, end."""
    restricted: str = ""
    """The query through which a principal reads it, where row filters or masks hold; it names the hidden table."""
    keys: Keys = NO_KEYS
    """Of a managed table, as declared: nothing enforces them."""
    csv: CsvOptions = NOTHING_SAID
    """How the files of a CSV table are written, as far as somebody said it."""
    source: Source | None = None
    """Of a table whose files are read by way of a Parquet file."""
    plan: ViewPlan = field(default_factory=ViewPlan, compare=False, repr=False)
    """Of a view."""

    @property
    def whole(self) -> Table | None:
        """Return what is found under the hidden name: the rows as they are stored, for views of them."""
        return self.stored or self.provider

    @property
    def info(self) -> TableInfo:
        """Return what clients may know of the table."""
        return TableInfo(self.name, _TYPES[self.kind], self.schema, self.keys)


Planned = Callable[[Entry, Mapping[TableName, Entry]], Entry]
"""Returns an entry as it is found among others, planned where it is a view; raises a `FlightLLMError`."""


class SchemaTables:
    """One schema as DataFusion sees it: looks up live, lists names, registers nothing by itself.

    DataFusion reads `table_names` as an attribute, unlike its abstract class says, hence no inheritance.
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
        """Return the names of the schema's tables that can be read; a list of tables looks each of them up."""
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
        """Return a table's provider, or None where there is no such table.

        Raises:
            NotFoundError: its file is gone; DataFusion would find no rows.
            InternalError: a file of it is damaged.
            FlightLLMError: it is a view that cannot be planned.
        """
        entries = self._entries()
        if entry := entries.get(TableName(self._schema, name)):
            check_files(entry)
            return self._planned(entry, entries).provider
        stored = entries.get(TableName(self._schema, name.removesuffix(STORED_SUFFIX)))
        return stored.whole if stored and name.endswith(STORED_SUFFIX) else None

    def table_exist(self, name: str) -> bool:
        """Tell whether the schema has the table."""
        return self.table(name) is not None


def check_files(entry: Entry) -> None:
    """Check that what an entry reads is there.

    Raises:
        NotFoundError: the file of a table is gone.
        PermissionDeniedError: an external table lies in a folder that the configuration no longer lists.
        InvalidInputError: the file of a table cannot be reached, or its content cannot be read.
        InternalError: a file of a table that clients made is gone or cut short.
    """
    if entry.kind == "external" and entry.provider is None:
        raise PermissionDeniedError(
            f"the external table {entry.name.display!r} lies in no place that [storage] in the server's configuration"
            " lists any more"
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
            f"the table {entry.name.display!r} is damaged: a file of it is missing or cut short on the server's disk;"
            " restore it from a backup, or drop it"
        )


class SystemSchema:
    """The schema `system`: every look-up returns a fresh snapshot, so one query sees one state per mention."""

    def __init__(self, tables: SystemTables) -> None:
        self._tables = tables
        self._empty = {name: _empty_table(schema) for name, schema in tables.schemas.items()}
        """Of a data set without rows DataFusion makes no partition, which it cannot sort."""

    @property
    def owner_name(self) -> None:
        """Return no owner."""

    @property
    def table_names(self) -> list[str]:
        """Return the names of the system tables."""
        return sorted(self._tables.schemas)

    def table(self, name: str) -> Table | None:
        """Return a snapshot of a system table, or None where there is no such table."""
        if not self.table_exist(name):
            return None
        # A data set, not a table made through a context: DataFusion may ask from inside its own runtime.
        rows = self._tables.snapshot(name)
        return Table(dataset.dataset(rows)) if rows.num_rows else self._empty[name]

    def table_exist(self, name: str) -> bool:
        """Tell whether there is such a system table."""
        return name in self._tables.schemas


@cache
def _empty_table(schema: pa.Schema) -> Table:
    context = SessionContext()
    context.register_record_batches("empty", [[pa.RecordBatch.from_pylist([], schema=schema)]])
    empty: Table = context.catalog().schema().table("empty")
    return empty
