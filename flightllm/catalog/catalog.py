"""The catalog: registers tables, answers metadata, and runs the statements that change tables."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import structlog
from datafusion import DataFrame, SessionContext, col
from datafusion.catalog import Table

from flightllm.attached.databases import AttachedDatabases
from flightllm.catalog import external, files, statements, uploads, views
from flightllm.catalog.converted import converted_format, converted_table, kept_if_taken, sheet_of
from flightllm.catalog.entries import Entry, SystemTables, TableInfo, system_rows
from flightllm.catalog.insertion import Insertion, planned_rows
from flightllm.catalog.reading import check_query
from flightllm.catalog.rewriting import Collect
from flightllm.catalog.store import TableStore
from flightllm.catalog.uploads import IngestMode
from flightllm.common.names import DEFAULT_SCHEMA, RESERVED, STORED_SUFFIX, TableName, quoted
from flightllm.common.principal import LOCAL
from flightllm.config import AttachedConfig, LimitsConfig, StorageConfig
from flightllm.errors import ConfigError, InvalidInputError, LimitExceededError, SqlError
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.sql.names import parse_name
from flightllm.sql.number_lists import with_lists_as_texts
from flightllm.sql.parsed_text import ParsedText, mentions
from flightllm.sql.statement import Statement
from flightllm.storage.folder import Reader, TablesFolder
from flightllm.storage.places import Places

_log = structlog.get_logger(__name__)


class Catalog:
    """All tables of one server. Tables that clients create are stored on disk.

    Safe to use from several threads. A query sees each table either before or after a change.
    """

    def __init__(
        self,
        limits: LimitsConfig,
        system: SystemTables | None = None,
        folder: Path | None = None,
        storage: StorageConfig | None = None,
    ) -> None:
        """Open the tables that earlier runs left in `folder`.

        Without `folder`, tables exist only as long as the catalog.

        `storage` lists the places outside `folder` that tables can read.

        Raises:
            ConfigError: another server uses the folder, or the folder's list of tables is damaged.
        """
        self.owner = LOCAL.name
        """The owner of tables and views that this catalog creates."""
        temporary = folder is None
        self._folder = TablesFolder(folder or Path(mkdtemp(prefix="flightllm-tables-")))
        self._close = weakref.finalize(self, self._folder.close, remove=temporary)
        try:
            self.store = TableStore(limits, system, self._folder, Places(storage or StorageConfig()))
        except BaseException:
            self._close()
            raise

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables that can be read."""
        return self.store.entries

    @property
    def whole_entries(self) -> Mapping[TableName, Entry]:
        """Return all tables at this moment, without the row filters and masks of a principal."""
        return self.entries

    def open_attached(self, folder: Path, configured: Mapping[str, AttachedConfig]) -> None:
        """Attach the databases of the configuration, and those that earlier runs left in `folder`.

        Their sources are not asked yet.

        Raises:
            ConfigError: the list of databases in the folder is damaged.
        """
        self.store.attached = AttachedDatabases(folder, configured)

    def close(self) -> None:
        """End the check of the data files, and release the folder and the attached databases. Idempotent."""
        self.store.attached.close()
        self.store.file_check.close()
        self._close()

    def reading(self, words: frozenset[str] | None = None, stopped: Callable[[], bool] = lambda: False) -> Reader:
        """Open a reader; while the reader is open, no table's files are removed.

        Before that, each changed CSV file or sheet with a Parquet copy is read again. If `words` are given, this covers
        only the tables that a text with these words can name; see `ParsedText.mentions`.

        The caller must open a reader before a query's first table look-up, and keep it open until the query ends.

        Raises:
            CancelledError: `stopped()` turned true while a file was read.
        """
        reader = self.store.folder.readers.open()
        try:
            self.store.refresh(words, stopped)
        except BaseException:
            reader.close()
            raise
        return reader

    def check_unrestricted(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` if the principal sees only a part of a table.

        In this class, every principal sees whole tables.
        """

    def check_owned(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` if the principal does not own a table.

        In this class, every principal passes.
        """

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a new DataFusion context over these tables.

        A planning context leaves each AI call at its place in the SQL. A context that is not parallel keeps the row
        order of each table.

        SQL text from clients must run only with `sql_with_options(text, QUERY_ONLY)`.
        """
        return self.store.context(planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the names of all schemas, `system` last."""
        return self.store.schemas()

    def databases(self) -> list[str]:
        """Return the names of the attached databases that the principal can know of."""
        return sorted(self.store.attached.all)

    def tables(self) -> list[TableInfo]:
        """Return all tables and system tables, sorted by schema and name; read no data."""
        with self.reading():
            entries = self.entries
            listed = [self.store.plans.info(entry, entries) for entry in entries.values()]
        return sorted([*listed, *self.store.system_tables()], key=lambda info: info.name)

    def system_rows(self, name: str) -> pa.Table:
        """Return the current rows of a system table; record no query.

        Raises:
            NotFoundError: there is no such system table.
        """
        return system_rows(self.store.system, name)

    def table(self, name: TableName | str) -> TableInfo:
        """Return one table, by its exact name or by SQL text such as `movies` or `x."Movies"`.

        Raises:
            NotFoundError: there is no such table; the message lists the existing tables.
        """
        with self.reading(mentions(name if isinstance(name, str) else name.name)):
            entries = self.entries
            wanted = self.store.named(name, entries)
            if entry := entries.get(wanted):
                return self.store.plans.info(entry, entries)
        for info in self.store.system_tables():
            if info.name == wanted:
                return info
        raise self.store.missing(wanted, entries)

    def columns_of(self, name: TableName | str) -> list[str]:
        """Return the names of a table's columns, in order.

        Raises:
            NotFoundError: there is no such table.
        """
        return list(self.table(name).schema.names)

    def revision(self, name: TableName) -> str:
        """Return a text that changes whenever the rows of a table can have changed.

        Raises:
            NotFoundError: there is no such table.
        """
        return self.store.revision(name, self.entries)

    def register_opened(
        self, name: str, path: Path | str, opened: files.FileTable, suffix: str, csv: CsvOptions = NOTHING_SAID
    ) -> list[str]:
        """Register a table that `open_file` returned; return notes about its files, one line each.

        `name` is a SQL name, and folds as in a query. `path` is the path of a file or folder, or an address in an
        object store.

        Raises:
            ConfigError: the name is taken or is not a SQL name.
        """
        given: dict[str, Any] = {"path": path, "source": opened.source, "csv": csv}
        if isinstance(path, str):
            given = {"location": path, "format": suffix, "csv": csv}
        elif opened.source is not None:
            given["path"] = sheet_of(path)[0]
        with kept_if_taken(opened, self.store.folder) as copy, self.store.lock:
            table = _configured_name(name)
            taken = self.store.entries.get(table)
            if taken is not None and taken.kind != "file":
                raise ConfigError(
                    f"table {name!r}: clients created a {taken.info.type.lower()} {table.display!r} in data_folder;"
                    f" give {path} another name, or start the server without {path} and drop {table.display!r}"
                )
            if taken is not None or table.schema in RESERVED:
                raise ConfigError(f"table {name!r}: the name is taken; choose another name")
            self.store.add_schema(table.schema)
            self.store.put(self._cast(Entry(table, "file", opened.stored, opened.table, **given), opened))
            copy.take()
        notes = list(opened.notes)
        if opened.separator is not None and csv.delimiter is None:
            column = opened.schema.names[0]
            notes.append(f"it was read as one column, {column!r}: perhaps {opened.separator!r} separates the columns")
        for note in notes:
            _log.warning(note, table=table.display)
        _log.info("table registered", table=table.display, path=str(path), columns=len(opened.schema))
        return notes

    def open_file(self, name: str, path: Path | str, csv: CsvOptions = NOTHING_SAID) -> tuple[files.FileTable, str]:
        """Open a configured table; return the table and, for an address, the suffix of its files.

        `csv` has the options of CSV files.

        Raises:
            ConfigError: the path or address cannot be read as a table.
        """
        if isinstance(path, Path):
            return self._open_path(name, path, csv), ""
        stores = self.store.places.stores
        if not stores.has(path):
            raise ConfigError(f"table {name!r}: no object store covers {path}; add one to [storage.object_stores]")
        try:
            return files.open_address(path, stores, csv=csv)
        except InvalidInputError as error:
            raise ConfigError(f"table {name!r}: {error}") from error

    def _open_path(self, name: str, path: Path, csv: CsvOptions) -> files.FileTable:
        file, sheet = sheet_of(path)
        try:
            if converted_format(file, csv) is not None:
                return converted_table(
                    file, csv, sheet, self.store.folder, self.store.limits.memory_bytes, lambda: False
                )
        except (InvalidInputError, LimitExceededError) as error:
            raise ConfigError(f"table {name!r}: {path}: {error}") from error
        return files.open_file(name, path, csv)

    def _cast(self, entry: Entry, opened: files.FileTable) -> Entry:
        """Return the entry of a file, with a cast for each column that clients see as another type."""
        if not opened.needs_cast:
            return entry
        self.store.put(Entry(entry.name, "file", opened.stored, None, stored=opened.table))
        stored = TableName(entry.name.schema, entry.name.name + STORED_SUFFIX)
        columns = [col(quoted(field.name)).cast(field.type).alias(field.name) for field in opened.schema]
        view = Table(self.context().sql(f"SELECT * FROM {stored.sql}").select(*columns))
        return replace(entry, schema=view.schema, provider=view, stored=opened.table)

    def ingest(
        self,
        name: TableName | str,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        mode: IngestMode = "create",
    ) -> int:
        """Store all batches in a table in one step; return the number of rows.

        A `name` of the type str is an exact name in the default schema.

        Raises:
            InvalidInputError: the table exists (`create`), a column does not fit, or the data is corrupt.
            NotFoundError: the table (`append`) or its schema does not exist.
            PermissionDeniedError: the table is a file, a view or a system table.
            LimitExceededError: the upload is too large.
        """
        table = name if isinstance(name, TableName) else TableName(DEFAULT_SCHEMA, name)
        return uploads.ingest(self.store, table, schema, batches, mode, self.owner)

    def values(self, statement: Statement) -> DataFrame:
        """Plan the rows of an INSERT … VALUES statement that has no AI calls; the result is the input of `insert`.

        The rows have all columns of the table. Each value is cast to its column's type, because VALUES without casts
        rejects a column that mixes strings and timestamps.

        Raises:
            PermissionDeniedError: the table is a file, a view or a system table.
            SqlError: the values do not fit the table's columns.
            LimitExceededError: the query is too large together with the views that it reads.
        """
        target = statements.target_of(statement)
        text, entry = statement.parsed_query, self.store.writable(target)
        check_query(text, self.entries, self.store.limits)
        quick = with_lists_as_texts(text)
        if quick != text.sql:
            with suppress(SqlError):  # an error must show the user's own text
                return planned_rows(self.context(), entry, statement.columns, quick)
        return planned_rows(self.context(), entry, statement.columns, statement.query or "")

    def filled(
        self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Extend rows with the columns of an INSERT statement to all columns of its table, and yield them.

        Raises:
            PermissionDeniedError: the table is a file, a view or a system table.
            SqlError: the rows do not fit the columns.
        """
        entry = self.store.writable(statements.target_of(statement))
        yield from Insertion(entry, statement.columns, schema).rows(batches)

    def insert(self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Add the rows of an INSERT statement's query to its table; return the number of rows.

        The columns are matched by position, as in SQL. All rows are added together once `batches` has ended.
        If `batches` raises, no row is added.

        Raises:
            PermissionDeniedError: the table is a file, a view or a system table.
            SqlError: the rows do not fit the table's columns; raised before the first batch is pulled.
        """
        table = statements.target_of(statement)
        return uploads.insert(self.store, table, statement.columns, schema, batches)

    def execute(self, statement: Statement, collect: Collect = DataFrame.collect) -> int:
        """Run a statement that changes tables and adds no rows; return the number of affected rows, or -1.

        UPDATE and DELETE first find the rows to change, with `collect`. The session runs statements that add rows or
        have AI calls: see `check_create`, `ingest`, `insert`, `create_ai_view`.

        Raises:
            FlightLLMError: the statement is wrong or not supported; nothing was changed.
        """
        return statements.execute(self.store, statement, collect, self.owner, self.entries)

    def check(self, statement: Statement) -> None:
        """Raise the errors of `execute` that planning finds; change nothing.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        statements.check(self.store, statement, self.entries)

    def targets(self, statement: Statement) -> tuple[TableName, ...]:
        """Return the tables, views or schemas that a statement changes; only DROP and TRUNCATE can have several.

        Raises:
            UnsupportedError: the statement changes no table, view or schema.
        """
        return statements.targets_of(statement)

    @contextmanager
    def changing(self, statement: Statement) -> Iterator[Entry]:
        """Return the table whose rows a statement changes, with its entry in `entries`.

        While the context is open, each change checks the principal's rights to the table again.

        Raises:
            NotFoundError: there is no such table.
            PermissionDeniedError: the table is a file, a view or a system table, or the principal has no right to this
                change.
        """
        yield self.to_change(statements.target_of(statement))

    def adding_to(self, statement: Statement) -> Entry:
        """Return the table to which an INSERT adds rows. The right to read the table is not needed.

        Raises:
            NotFoundError: there is no such table.
            PermissionDeniedError: the table is a file, a view or a system table, or the principal cannot add rows.
        """
        return self.to_change(statements.target_of(statement))

    def to_change(self, name: TableName) -> Entry:
        """Return the entry in `entries` of a table that clients can change; see `changing`."""
        entry = self.store.writable(name)
        return self.entries.get(name, entry)

    def check_create(self, statement: Statement) -> bool:
        """Return whether CREATE … must do anything: False if the name exists and IF NOT EXISTS was written.

        Raises:
            InvalidInputError: the name exists without OR REPLACE, or OR REPLACE would turn a view into a table.
            NotFoundError: the schema does not exist.
            PermissionDeniedError: OR REPLACE would replace a file or a system table.
        """
        return statements.check_create(self.store, statement)

    def create_ai_view(self, statement: Statement, schema: pa.Schema) -> None:
        """Store the text of a CREATE VIEW statement with AI calls; `schema` has the query's columns.

        Raises:
            InvalidInputError: the name exists; see `check_create`.
        """
        statements.create_ai_view(self.store, statement, schema, self.owner)

    def create_external(self, statement: Statement, stopped: Callable[[], bool] = lambda: False) -> None:
        """Create a table over files in a place that the configuration lists; only for admins.

        Raises:
            InvalidInputError: the name exists (see `check_create`), or the place has no files of the format.
            PermissionDeniedError: the configuration does not list the place.
        """
        external.create_external(self.store, statement, self.owner, stopped)

    def inline_views(self, text: ParsedText) -> ParsedText:
        """Put the AI views that a query names before the query, as WITH queries; other text is the same object.

        Raises:
            LimitExceededError: the query is too large together with the plain views that it reads.
            SqlError: some views read each other.
            UnsupportedError: an inner WITH query has the name of an AI view that the query needs.
        """
        entries = self.entries
        if ai_views := {name: entry for name, entry in entries.items() if entry.kind == "ai_view"}:
            text = views.with_views(text, ai_views, entries)
        check_query(text, entries, self.store.limits)
        return text


def _configured_name(name: str) -> TableName:
    """Return the name of a configured table.

    Raises:
        ConfigError: the name is not a SQL name.
    """
    try:
        return parse_name(name)
    except SqlError as error:
        raise ConfigError(f"table {name!r}: {error}") from error
