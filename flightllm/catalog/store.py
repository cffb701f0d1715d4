"""The shared mapping of names to tables, in which all contexts of a server look tables up."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as await_futures
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock, Thread, local
from typing import cast
from uuid import uuid4

import structlog
from datafusion import SessionContext
from datafusion.catalog import Catalog as SharedCatalog
from datafusion.catalog import SchemaProvider

from flightllm.attached.databases import AttachedDatabases
from flightllm.catalog.attached import is_of, refresh, schemas_in
from flightllm.catalog.converted import converted_table, kept_if_taken
from flightllm.catalog.entries import (
    ComparedTables,
    Entry,
    Planned,
    SchemaTables,
    StoredRows,
    SystemSchema,
    SystemTables,
    TableInfo,
    bytes_changed,
    check_bytes,
)
from flightllm.catalog.files import FileTable, files_revision, unreachable
from flightllm.catalog.manifest import KEPT, CatalogManifest, entry_json
from flightllm.catalog.opening import opened
from flightllm.catalog.planning import ViewPlans
from flightllm.catalog.reading import named_in, readers_of
from flightllm.catalog.sizes import table_size
from flightllm.catalog.spellings import Spellings
from flightllm.common.cached import cached_property
from flightllm.common.names import (
    DEFAULT_SCHEMA,
    RESERVED,
    STORED_SUFFIX,
    SYSTEM_SCHEMA,
    TableName,
    is_temporary,
    quoted,
)
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import Memory, shared_context
from flightllm.datafusion.table_size import TableSize
from flightllm.errors import CancelledError, FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError
from flightllm.sql.grants import ObjectKind
from flightllm.sql.names import parse_name
from flightllm.storage.change_ids import current_mark
from flightllm.storage.decoded import DecodedTables
from flightllm.storage.file_check import FileCheck, FileStatus
from flightllm.storage.folder import TablesFolder
from flightllm.storage.places import Places
from flightllm.storage.rows import StoredFile
from flightllm.storage.sealed import NewerVersionError

_log = structlog.get_logger(__name__)
_WORD = re.compile(r"\w+")
_LISTING = frozenset({"information_schema", "show", "index"})
"""Words of statements that can read tables which their text does not name."""
_POLL_SECONDS = 0.1
_MOST_MARKS = 256
"""The most marks that are kept: a mark is needed only until its statement is noted as done."""
_WHAT = {
    "file": "an opened file",
    "external": "an external table",
    "attached": "a table of an attached database",
    "view": "a view",
    "ai_view": "a view",
}


class _Reading:
    """The running reading of a source."""

    def __init__(self) -> None:
        self.done = Future[None]()
        self.waiting = 0
        """The number of statements that wait for it."""


class TableStore:
    """All entries in one mapping. Every change replaces the whole mapping, so look-ups take no lock.

    A caller that changes several things at once must hold `lock`.
    """

    def __init__(  # noqa: PLR0915 - it lists the parts of the state
        self, limits: LimitsConfig, system: SystemTables | None, folder: TablesFolder, places: Places
    ) -> None:
        """Load the tables that an earlier run left in `folder`.

        Raises:
            ConfigError: the folder's manifest is damaged, or a newer version wrote it.
        """
        self.limits, self.folder, self.places = limits, folder, places
        self.decoded = DecodedTables(limits.decoded_bytes)
        """The rows of tables that were read lately."""
        self._memory = Memory(limits)
        self.lock = RLock()
        self._starting = Lock()
        """Held while a thread starts or ends the reading of a source."""
        self._readings: dict[TableName, _Reading] = {}
        """The running readings of sources, each in its own thread."""
        self._asked = local()
        self.forget: Callable[[ObjectKind, Collection[tuple[str, str]]], None] = lambda *_: None
        """Called with the kind, and pairs of schema and name, before schemas, tables or views are dropped."""
        self.moving: Callable[[TableName, TableName], AbstractContextManager[None]] = lambda *_: nullcontext()
        """Called with the names before and after; the block in its context renames the table or view."""
        self.functions: Callable[[SessionContext], None] = lambda _: None
        """Registers the server's own functions in a context, for views and row filters that call them."""
        self.system = system
        self._entries: Mapping[TableName, Entry] = {}
        self.compared_tables = ComparedTables(lambda: self._entries)
        self._schemas: tuple[str, ...] = ()
        self.attached = AttachedDatabases()
        """The attached databases. Their tables are entries, too, once they were read."""
        self._attached_schemas: tuple[str, ...] = ()
        self._rewriting: defaultdict[str, Lock] = defaultdict(Lock)
        self.plans = ViewPlans(limits, self._planning_context)
        self._shared = SharedCatalog.memory_catalog()
        self._register(DEFAULT_SCHEMA)
        if self._system_schema is not None:
            self._shared.register_schema(SYSTEM_SCHEMA, cast("SchemaProvider", self._system_schema))
        self._temporary: set[str] = set()
        """The schemas of sessions' temporary tables. Clients do not see these schemas, and they are not on disk."""
        self._run = uuid4().hex
        """The revision of all tables in object stores: their objects count as constant while the server runs."""
        self._kept = CatalogManifest((), (), uuid4().hex)
        """The manifest on disk."""
        self._former: set[str] = set()
        """The data files of the previous manifest, which is used if the present manifest is damaged."""
        self._refused: set[str] = set()
        """The data files of manifests whose write failed. A failed manifest can be on disk all the same."""
        self.file_check = FileCheck(folder, self._note)
        """The comparison of the data files with their digests."""
        text = folder.load()
        self._is_new = text is None
        if text is not None:
            self._load(text)
            try:
                self._former = CatalogManifest.of_json(folder.load_previous()).files
            except InvalidInputError:  # what it named stays until the next change, so that it can still be mended
                self._former = set(self._kept.replaced)
        self._texts = [entry_json(entry) for entry in self._kept.entries]
        self._written: dict[TableName, tuple[Entry, str]] = {}
        """Entries with their JSON, so that a change encodes only the entries that it changes."""

    def tidy(self) -> None:
        """Remove what an earlier run left, move aside what no manifest names, and start the check of the data files.

        Call it once the server listens.
        """
        with self.lock:
            whole = not self._is_new and all(self.folder.file(name).is_file() for name in self._kept.files)
            self.folder.leftovers.tidy(self._named, self._kept.replaced, whole=whole)
            if not self._is_new:  # an earlier version wrote no mark
                self.folder.mark()
        self.file_check.start()

    def compare(self, name: TableName, files: Iterable[StoredFile]) -> None:
        """Compare files that a statement rewrites with their digests, unless this run wrote or compared them.

        Else a new file with its own digest would take over the damaged rows.

        Raises:
            CancelledError: the statement was cancelled.
            InternalError: a file of the table is damaged, or cannot be read.
        """
        if not self.file_check.compare(files):
            raise bytes_changed(name)
        if entry := self._entries.get(name):
            check_bytes(entry)

    def _note(self, file: str, status: FileStatus) -> None:
        """Note that a data file is damaged or was restored: statements then refuse its table, or read it again."""
        with self.lock:
            for entry in self._entries.values():
                if entry.rows is not None and any(one.name == file for one in entry.rows.files):
                    if (file in entry.rows.damaged) != (status == "damaged"):
                        self._mark(entry, entry.rows, file)
                    return

    def _mark(self, entry: Entry, rows: StoredRows, file: str) -> None:
        """Mark a file of an entry as damaged, or take the mark back. The caller holds the lock."""
        if file in rows.damaged:
            _log.info("a damaged file is whole again", table=entry.name.display, file=file)
        else:
            _log.error("a table is damaged: the bytes of a file have changed", table=entry.name.display, file=file)
        marked = replace(entry, rows=replace(rows, damaged=rows.damaged ^ {file}))
        self._change({**self._entries, entry.name: marked})
        if rows.folder is not None:
            self.decoded.forget(rows.folder)
        self.folder.save_damaged(_damaged_files(self._entries))

    def data_files(self) -> Iterator[tuple[TableName, StoredFile, FileStatus]]:
        """Yield each data file with its table and state."""
        for name, entry in sorted(self.visible().items()):
            for file in entry.rows.files if entry.rows is not None else ():
                yield name, file, self.file_check.status(file)

    @property
    def _named(self) -> set[str]:
        """Return the data files of the present, previous and failed manifests, and of temporary tables."""
        return self._kept.files | self._former | self._refused | _temporary_files(self._entries)

    def _load(self, text: str) -> None:
        try:
            self._kept = CatalogManifest.of_json(text)
        except NewerVersionError:
            raise
        except InvalidInputError as error:
            raise self.folder.damaged(str(error)) from error
        for schema in self._kept.schemas:
            self._register(schema)
        found = [opened(entry, self.folder, self.places, written=False) for entry in self._kept.entries]
        for entry in found:
            if entry.rows is not None and not entry.rows.complete:
                names = [file.name for file in entry.rows.files]
                _log.error(
                    "a table is damaged: a file is missing, cut short or unusable",
                    table=entry.name.display,
                    files=names,
                )
        known = self.folder.load_damaged()
        self._entries = {entry.name: _with_damage(entry, known) for entry in found}
        files = [file for entry in found if entry.rows is not None for file in entry.rows.files]
        self.file_check.add(files, _damaged_files(self._entries))

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over these tables; a planning context leaves AI calls where the SQL put them.

        A context that is not parallel keeps rows in the order of their table.

        Run clients' text only with `sql_with_options(text, QUERY_ONLY)`.
        """
        return self.context_over(self._shared, planning=planning, parallel=parallel)

    def context_over(self, catalog: SharedCatalog, *, planning: bool, parallel: bool) -> SessionContext:
        """Return a fresh context over a catalog of these tables; see `context`."""
        context = shared_context(catalog, self._memory, planning=planning, parallel=parallel)
        context.sizes = self._size
        self.functions(context)
        stores = self.places.stores
        return stores.register(context) if stores.urls else context

    def _size(self, schema: str, name: str) -> TableSize | None:
        entry = self._entries.get(TableName(schema, name.removesuffix(STORED_SUFFIX)))
        return None if entry is None else table_size(entry)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return all present entries."""
        return self._entries

    def system_tables(self) -> list[TableInfo]:
        """Return the tables of the schema `system`."""
        schemas = self.system.schemas if self.system else {}
        return [TableInfo(TableName(SYSTEM_SCHEMA, name), "SYSTEM TABLE", schema) for name, schema in schemas.items()]

    def schemas(self) -> list[str]:
        """Return the names of all schemas, `system` last."""
        return [*self._schemas, *self._attached_schemas, *([SYSTEM_SCHEMA] if self.system else [])]

    @property
    def attached_schemas(self) -> Sequence[str]:
        """Return the schemas of attached databases. A user without a grant there must not learn their names."""
        return self._attached_schemas

    def named(self, name: TableName | str, entries: Mapping[TableName, Entry]) -> TableName:
        """Return the table that a name means: an exact or dotted name of one of `entries`, or else SQL text."""
        if isinstance(name, TableName):
            return name
        parts = name.split(".")
        of_attached = TableName(".".join(parts[:-1]), parts[-1])
        for exact in (
            TableName(DEFAULT_SCHEMA, name),
            TableName(parts[-2] if len(parts) > 1 else "", parts[-1]),
            of_attached,
        ):
            if exact in entries:
                return exact
        return parse_name(name)

    def missing(self, name: TableName, seen: Iterable[TableName] | None = None) -> NotFoundError:
        """Return the error that a table does not exist; with `seen`, it lists the names that the user can see."""
        if seen is None:
            return NotFoundError(f"there is no table {name.display!r}: see SHOW TABLES")
        known = ", ".join(sorted(entry.display for entry in seen)[:20]) or "none yet"
        return NotFoundError(f"there is no table {name.display!r}; the tables are: {known}")

    def writable(self, name: TableName) -> Entry:
        """Return a table that clients can change.

        Raises:
            NotFoundError: there is no such table.
            PermissionDeniedError: the table is a file, an external table, a view or a system table.
        """
        entry = self._entries.get(name)
        if name.schema in RESERVED:
            raise PermissionDeniedError(f"{name.display!r} belongs to the server and can only be read")
        if entry is None:
            raise self.missing(name)
        if entry.kind != "managed":
            instead = f"; CREATE TABLE … AS SELECT * FROM {name.display} makes a table that can change"
            raise PermissionDeniedError(
                f"{name.display!r} is {_WHAT[entry.kind]} and can only be read{instead if entry.kind == 'file' else ''}"
            )
        return entry

    def check_schema(self, schema: str) -> None:
        """Check that clients can create tables in a schema.

        Raises:
            NotFoundError: there is no such schema.
            PermissionDeniedError: the schema belongs to the server.
        """
        if schema in RESERVED:
            raise PermissionDeniedError(f"the schema {schema!r} belongs to the server: choose another schema")
        if any(is_of(database, schema) for database in self.attached.all):
            raise PermissionDeniedError(
                f"the schema {schema!r} belongs to an attached database and can only be read: choose another schema"
            )
        if schema not in self._schemas and schema not in self._temporary:
            raise NotFoundError(f"there is no schema {schema!r}: write CREATE SCHEMA {quoted(schema)} first")

    def add_schema(self, schema: str) -> None:
        """Add a schema, if it does not exist."""
        with self.lock:
            if schema not in self._schemas:
                self._commit(self._entries, (*self._schemas, schema))
                self._register(schema)

    def _register(self, schema: str) -> None:
        if schema not in self._schemas:
            provider = SchemaTables(schema, lambda: self._entries, self.plans.looked_up)
            self._shared.register_schema(schema, cast("SchemaProvider", provider))
            self._schemas = (*self._schemas, schema)

    def put_attached(self, database: str, entries: Iterable[Entry]) -> None:
        """Replace the tables of an attached database, and its schemas, in one step; nothing is written to disk."""
        with self.lock:
            new = {entry.name: entry for entry in entries}
            before = {schema for schema in self._attached_schemas if is_of(database, schema)}
            now = schemas_in(new, database)
            for schema in sorted(now - before):
                provider = SchemaTables(schema, lambda: self._entries, self.plans.looked_up)
                self._shared.register_schema(schema, cast("SchemaProvider", provider))
            self._attached_schemas = (*(one for one in self._attached_schemas if one not in before), *sorted(now))
            kept = {name: entry for name, entry in self._entries.items() if not is_of(database, name.schema)}
            self._change({**kept, **new})
            for schema in sorted(before - now):
                self._shared.deregister_schema(schema)

    def drop_schema(self, schema: str) -> None:
        """Remove an empty schema."""
        with self.lock:
            others = tuple(other for other in self._schemas if other != schema)
            self.forget("SCHEMA", [(schema, "")])
            self._commit(self._entries, others)
            self._shared.deregister_schema(schema)
            self._schemas = others

    def open_temporary(self, schema: str) -> None:
        """Add a schema for a session's temporary tables, if it does not exist."""
        with self.lock:
            if schema not in self._temporary:
                self._temporary.add(schema)
                provider = SchemaTables(schema, lambda: self._entries, self.plans.looked_up)
                self._shared.register_schema(schema, cast("SchemaProvider", provider))

    def drop_temporary(self, schema: str) -> None:
        """Remove a session's schema with its tables, if it exists; running queries can still read them."""
        with self.lock:
            if schema not in self._temporary:
                return
            self._change({name: entry for name, entry in self._entries.items() if name.schema != schema})
            self._temporary.discard(schema)
            self._shared.deregister_schema(schema)

    def visible(self, own: str = "") -> Mapping[TableName, Entry]:
        """Return the entries without temporary tables, except those of the schema `own`."""
        entries = self._entries
        if not self._temporary:
            return entries
        return {n: entry for n, entry in entries.items() if n.schema == own or not is_temporary(n.schema)}

    def revision(self, name: TableName, entries: Mapping[TableName, Entry]) -> str:
        """Return a text that changes whenever the rows of one of `entries` can have changed.

        Raises:
            NotFoundError: there is no such table.
        """
        entry = entries.get(name)
        if entry is None:
            raise self.missing(name)
        if entry.kind == "attached":
            return f"{self._run} {entry.format}"
        if entry.path is not None:
            return files_revision(entry.path)
        if entry.rows is not None:
            return entry.rows.revision
        if entry.location:
            return self._run
        files = [_seen(other)[0] for other in entries.values() if other.path is not None]
        return " ".join([self._kept.revision, *files])

    def refresh(self, words: frozenset[str] | None = None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Read each changed source again: those of the tables that a text with `words` can name, or of all tables.

        Statements that need the same source wait for one reading. If a source cannot be read, look-ups of its table
        raise an error until the source changes again.

        Raises:
            CancelledError: `stopped()` turned true; the reading goes on only while other statements wait for it.
        """
        if self.attached.all:
            refresh(self, None if words is None or not _LISTING.isdisjoint(words) else words)
        entries = self._entries
        if all(entry.source is None for entry in entries.values()):
            return
        everything = words is None or not _LISTING.isdisjoint(words)
        for entry in entries.values() if everything or words is None else named_in(words, entries):
            if entry.source is not None and _seen(entry)[0] != entry.source.revision:
                self._read_anew(entry.name, stopped)

    def _read_anew(self, name: TableName, stopped: Callable[[], bool]) -> None:
        """Wait until a source was read, by a reading that began after this call."""
        mine = False
        while not mine:
            with self._starting:
                reading = self._readings.get(name)
                mine = reading is None
                if reading is None:
                    reading = _Reading()
                    Thread(target=self._read, args=(name, reading), name="flightllm-files", daemon=True).start()
                    self._readings[name] = reading  # the thread removes it under the same lock
                reading.waiting += 1
            try:
                while not await_futures([reading.done], _POLL_SECONDS).done:
                    if stopped():
                        raise CancelledError("the statement was cancelled while a file was read")
            finally:
                with self._starting:
                    reading.waiting -= 1  # at 0 the reading stops
            if mine:
                reading.done.result()

    def _read(self, name: TableName, reading: "_Reading") -> None:
        error: BaseException | None = None
        try:
            self._read_source(name, lambda: not reading.waiting)
        except BaseException as raised:  # noqa: BLE001 - the waiting thread raises it
            error = raised
        with self._starting:
            del self._readings[name]
        if error is None:
            reading.done.set_result(None)
        else:
            reading.done.set_exception(error)

    def _read_source(self, name: TableName, stopped: Callable[[], bool]) -> None:
        """Replace an entry by its source's present rows, or by the reason why the source cannot be read."""
        entry = self._entries.get(name)
        if entry is None or entry.path is None or entry.source is None:
            return
        revision, problem = _seen(entry)
        if revision == entry.source.revision:
            return
        found: FileTable | None = None
        try:
            if entry.kind == "external":
                self.places.checked(entry.location)
            if not problem:
                found = converted_table(
                    entry.path, entry.csv, entry.source.sheet, self.folder, self.limits.memory_bytes, stopped
                )
        except CancelledError:  # nothing is wrong with the file
            raise
        except Exception as error:  # noqa: BLE001 - other tables can still be read
            problem = _problem(error)
            _log.warning("a file has changed and cannot be read", table=name.display, error=repr(error))
        if found is None:
            self._exchange(entry, replace(entry, source=replace(entry.source, revision=revision, problem=problem)))
            return
        _log.info("a file was read", table=name.display, columns=len(found.schema), notes=found.notes)
        with kept_if_taken(found, self.folder) as copy:
            fresh = replace(entry, schema=found.schema, provider=found.table, source=found.source)
            if self._exchange(entry, fresh):
                copy.take()

    def _exchange(self, entry: Entry, fresh: Entry) -> bool:
        """Replace an entry; return False if the store no longer has this entry."""
        with self.lock:
            if self._entries.get(entry.name) is not entry:
                return False
            self._change({**self._entries, entry.name: fresh})
        return True

    def rewriting(self, rows: StoredRows) -> Lock:
        """Return the lock to hold while a table's files are replaced."""
        with self.lock:
            return self._rewriting[rows.identity]

    @contextmanager
    def checking(self, check: Callable[[TableName, Entry | None], None]) -> Iterator[None]:
        """Call `check` before each change of this thread; it can raise to stop one.

        It gets the name of the table and the present entry, or None for a new table.
        """
        former = getattr(self._asked, "check", None)
        self._asked.check = check
        try:
            yield
        finally:
            self._asked.check = former

    def _check(self, name: TableName) -> None:
        """Run this thread's check of a change to an entry. The caller holds the lock."""
        if check := getattr(self._asked, "check", None):
            check(name, self._entries.get(name))

    def put(self, *entries: Entry) -> None:
        """Add or replace entries in one step; the views that read them are planned again.

        The entries' new data files must be on disk. When this returns, the change survives a crash.

        Raises:
            LimitExceededError: the disk is full; nothing was changed.
            PermissionDeniedError: a name is reserved.
        """
        for entry in entries:
            if STORED_SUFFIX in entry.name.name:
                raise PermissionDeniedError(f"{entry.name.name!r} is a reserved name: choose another")
        with self.lock:
            for entry in entries:
                self._check(entry.name)
            new = {entry.name: opened(entry, self.folder, self.places) for entry in entries}
            self._change({**{name: kept for name, kept in self._entries.items() if name not in new}, **new})

    def remove(self, *names: TableName) -> None:
        """Remove entries in one step; the views that read them are planned again.

        Raises:
            LimitExceededError: the disk is full; all entries stay, but their grants can be gone.
        """
        with self.lock:
            for name in names:
                self._check(name)
            # The grants go first: after a crash in between, a new table of the same name must not have old grants.
            # They do not come back if the change then fails: an admin can have revoked some of them meanwhile.
            self.forget("TABLE", [(name.schema, name.name) for name in names])
            self._change({other: kept for other, kept in self._entries.items() if other not in names})

    def rename(self, name: TableName, moved: Entry, *changed: Entry) -> None:
        """Replace the entry `name` by `moved`, which has another name, and change other entries in the same step.

        Raises:
            InvalidInputError: row filters or masks of the two names differ.
            LimitExceededError: the disk is full; the name stays, but its grants can be gone.
            PermissionDeniedError: the new name is reserved.
        """
        if STORED_SUFFIX in moved.name.name:
            raise PermissionDeniedError(f"{moved.name.name!r} is a reserved name: choose another")
        with self.lock:
            self._check(name)
            self._check(moved.name)
            others = {other: kept for other, kept in self._entries.items() if other != name}
            with self.moving(name, moved.name):
                self._change({**others, **{entry.name: entry for entry in (moved, *changed)}})

    def discard(self, names: Iterable[str]) -> None:
        """Remove those of the data files that no table uses."""
        with self.lock:
            self.folder.remove(set(names) - self._named)

    def _change(self, entries: Mapping[TableName, Entry]) -> None:
        """Write new entries to disk, then make them the present entries. The caller holds the lock."""
        before = self._entries
        try:
            entries = _with_stale_views(entries, before)
            self._commit(entries, self._schemas)
        except Exception:
            self._retire(entries, before)
            raise
        self._entries = entries
        self._retire(before, entries)
        self.folder.remove(_temporary_files(before) - self._named)
        for entry in before.values():
            if entry.name not in entries and entry.rows is not None:
                self._rewriting.pop(entry.rows.identity, None)

    def _commit(self, entries: Mapping[TableName, Entry], schemas: tuple[str, ...]) -> None:
        kept = (e for e in entries.values() if e.kind in KEPT and not is_temporary(e.name.schema))
        before = self._kept.files | self._former | self._refused
        marks = self._kept.marks
        if (mark := current_mark()) and mark not in marks:
            marks = (*marks, mark)[-_MOST_MARKS:]
        manifest = CatalogManifest(schemas, tuple(kept), uuid4().hex, marks=marks)
        manifest = replace(manifest, replaced=frozenset(before - manifest.files))
        written = {entry.name: self._as_json(entry) for entry in manifest.entries}
        texts = [text for _, text in written.values()]
        if (schemas, texts) != (self._kept.schemas, self._texts):
            try:
                self.folder.commit(
                    manifest.as_json(texts), lambda: self._kept.as_json(self._texts), manifest.files - self._kept.files
                )
            finally:
                if self.folder.unsure:
                    self._refused |= manifest.files
            oldest, self._former, self._refused = self._former | self._refused, self._kept.files, set()
            self._kept, self._texts = manifest, texts
            self.folder.remove(oldest - self._named)
        self._written = written

    def has_mark(self, mark: str) -> bool:
        """Return whether a statement with this mark has changed a table, whatever has become of it since."""
        return mark in self._kept.marks

    def _as_json(self, entry: Entry) -> tuple[Entry, str]:
        known = self._written.get(entry.name)
        return known if known is not None and known[0] is entry else (entry, entry_json(entry))

    def _retire(self, before: Mapping[TableName, Entry], after: Mapping[TableName, Entry]) -> None:
        """Remove the link folders that only former entries use, once no reader uses them any more."""
        kept = {_folder_of(entry) for entry in after.values()}
        for entry in before.values():
            folder = _folder_of(entry)
            if folder is not None and folder not in kept:
                self.decoded.forget(folder)
                self.folder.readers.retire(folder)

    @cached_property
    def spellings(self) -> Spellings:
        """Return the names with capitals, which an unquoted name can mean."""
        return Spellings(lambda: self._entries)

    @cached_property
    def _system_schema(self) -> SystemSchema | None:
        """Return the schema of system tables. It is made once, because it makes a table for each system table."""
        return None if self.system is None else SystemSchema(self.system)

    def reads(self, folder: Path) -> bool:
        """Return whether the present state of a stored table is read through this folder of links."""
        return any(entry.rows is not None and entry.rows.folder == folder for entry in self._entries.values())

    def _planning_context(self, entries: Mapping[TableName, Entry], planned: Planned) -> SessionContext:
        """Return a context over other entries than the store's, for planning views."""
        return self.context_over(self.catalog_of(entries, planned), planning=False, parallel=True)

    def catalog_of(self, entries: Mapping[TableName, Entry], planned: Planned | None = None) -> SharedCatalog:
        """Return a DataFusion catalog over entries, which can differ from the store's present entries."""
        catalog = SharedCatalog.memory_catalog()
        temporary = sorted({name.schema for name in entries if is_temporary(name.schema)}) if self._temporary else []
        for schema in (*self._schemas, *self._attached_schemas, *temporary):
            catalog.register_schema(
                schema, cast("SchemaProvider", SchemaTables(schema, lambda: entries, planned or self.plans.looked_up))
            )
        if self._system_schema is not None:
            catalog.register_schema(SYSTEM_SCHEMA, cast("SchemaProvider", self._system_schema))
        return catalog


def _folder_of(entry: Entry) -> Path | None:
    """Return the folder to remove once no reader uses the entry any more."""
    if entry.source is not None and entry.source.location:
        return Path(entry.source.location).parent
    return entry.rows.folder if entry.rows else None


def _seen(entry: Entry) -> tuple[str, str]:
    """Return the present revision of an entry's files, and why the server cannot reach them (or "").

    A folder without files has a revision, too. A path that is gone keeps its last revision, because the look-up
    of the table reports it.
    """
    if entry.path is None:
        return "", ""
    try:
        if entry.source is not None and not entry.path.exists():
            return entry.source.revision, entry.source.problem
        is_text = entry.source is not None and entry.source.form == "text"
        return files_revision(entry.path, any_name=is_text), ""
    except OSError as error:
        problem = str(unreachable(error))
    except InvalidInputError as error:
        problem = str(error)
    return f"unreachable: {problem}", problem


def _problem(error: Exception) -> str:
    """Return the reason why a file cannot be read, in words that clients can see: without paths."""
    if isinstance(error, FlightLLMError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return str(unreachable(error))
    return f"it is damaged ({type(error).__name__}); see the server's log for details"


def _with_damage(entry: Entry, damaged: Collection[str]) -> Entry:
    """Return an entry that knows which of its files were found damaged."""
    if entry.rows is None:
        return entry
    mine = frozenset(file.name for file in entry.rows.files if file.name in damaged)
    return replace(entry, rows=replace(entry.rows, damaged=mine)) if mine else entry


def _damaged_files(entries: Mapping[TableName, Entry]) -> set[str]:
    return {name for entry in entries.values() if entry.rows is not None for name in entry.rows.damaged}


def _temporary_files(entries: Mapping[TableName, Entry]) -> set[str]:
    found = (entry.rows for name, entry in entries.items() if is_temporary(name.schema))
    return {file.name for rows in found if rows is not None for file in rows.files}


def _with_stale_views(
    entries: Mapping[TableName, Entry], before: Mapping[TableName, Entry]
) -> Mapping[TableName, Entry]:
    """Return entries without the plans of views that read changed entries, because a plan keeps its tables alive."""
    changed = {name for name in {*before, *entries} if before.get(name) is not entries.get(name)}
    stale = readers_of(changed, entries)
    return {name: replace(e, plan=e.plan.renewed()) if name in stale else e for name, e in entries.items()}
