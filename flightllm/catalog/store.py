"""The mapping of names to tables that all contexts of a server look up."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import cast
from uuid import uuid4

from datafusion import SessionContext
from datafusion.catalog import Catalog as SharedCatalog
from datafusion.catalog import SchemaProvider, Table

from flightllm.catalog.contexts import QUERY_ONLY, Memory, shared_context
from flightllm.catalog.entries import Entry, SchemaTables, SystemSchema, SystemTables, TableInfo
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.files import files_revision
from flightllm.config import LimitsConfig
from flightllm.errors import InvalidInputError, NotFoundError, PermissionDeniedError, UnsupportedError
from flightllm.sql.names import DEFAULT_SCHEMA, TableName, parse_name, quoted

SYSTEM_SCHEMA = "system"
RESERVED = (SYSTEM_SCHEMA, "information_schema")


class TableStore:
    """All entries, in one mapping that every change replaces as a whole, so look-ups take no lock.

    Whoever changes several things at once holds `lock`.
    """

    def __init__(self, limits: LimitsConfig, system: SystemTables | None) -> None:
        self.limits = limits
        self._memory = Memory(limits)
        self.lock = RLock()
        self._system = system
        self._entries: Mapping[TableName, Entry] = {}
        self._schemas: tuple[str, ...] = ()
        self._run = uuid4().hex
        """Tables in memory live as long as the server: another run has other ones."""
        self._changes: Counter[TableName] = Counter()
        self._shared = SharedCatalog.memory_catalog()
        self.add_schema(DEFAULT_SCHEMA)
        if system is not None:
            self._shared.register_schema(SYSTEM_SCHEMA, cast("SchemaProvider", SystemSchema(system)))

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over these tables; a planning one leaves AI calls where the SQL put them.

        One that is not parallel keeps rows in the order of their table.

        Run clients' text in it with `sql_with_options(text, QUERY_ONLY)` alone.
        """
        return shared_context(self._shared, self._memory, planning=planning, parallel=parallel)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return all entries as they are now."""
        return self._entries

    def system_tables(self) -> list[TableInfo]:
        """Return the tables of the schema `system`."""
        schemas = self._system.schemas if self._system else {}
        return [TableInfo(TableName(SYSTEM_SCHEMA, name), "SYSTEM TABLE", schema) for name, schema in schemas.items()]

    def schemas(self) -> list[str]:
        """Return the names of all schemas, `system` last."""
        return [*self._schemas, *([SYSTEM_SCHEMA] if self._system else [])]

    def named(self, name: TableName | str) -> TableName:
        """Return the table that an exact name, an exact dotted name or SQL text means, tried in this order."""
        if isinstance(name, TableName):
            return name
        parts = name.split(".")
        for exact in (TableName(DEFAULT_SCHEMA, name), TableName(parts[-2] if len(parts) > 1 else "", parts[-1])):
            if exact in self._entries:
                return exact
        return parse_name(name)

    def missing(self, name: TableName) -> NotFoundError:
        """Return the error that a table does not exist; it names the ones there are."""
        known = ", ".join(sorted(entry.display for entry in self._entries)[:20]) or "none yet"
        return NotFoundError(f"there is no table {name.display!r}; the tables are: {known}")

    def writable(self, name: TableName) -> Entry:
        """Return a table that clients may change.

        Raises:
            NotFoundError: there is no such table.
            PermissionDeniedError: it is a file, a view or a system table.
        """
        entry = self._entries.get(name)
        if name.schema in RESERVED:
            raise PermissionDeniedError(f"{name.display!r} is the server's own and can only be read")
        if entry is None:
            raise self.missing(name)
        if entry.kind != "memory":
            what = "registered by the server's configuration" if entry.kind == "file" else "a view"
            raise PermissionDeniedError(f"{name.display!r} is {what} and can only be read")
        return entry

    def check_schema(self, schema: str) -> None:
        """Check that clients may make tables in a schema.

        Raises:
            NotFoundError: there is no such schema.
            PermissionDeniedError: it is the server's own.
        """
        if schema in RESERVED:
            raise PermissionDeniedError(f"the schema {schema!r} is the server's own")
        if schema not in self._schemas:
            raise NotFoundError(f"there is no schema {schema!r}: write CREATE SCHEMA {quoted(schema)} first")

    def add_schema(self, schema: str) -> None:
        """Add a schema, if it is not there."""
        with self.lock:
            if schema not in self._schemas:
                provider = SchemaTables(schema, lambda: self._entries)
                self._shared.register_schema(schema, cast("SchemaProvider", provider))
                self._schemas = (*self._schemas, schema)

    def drop_schema(self, schema: str) -> None:
        """Remove an empty schema."""
        with self.lock:
            self._shared.deregister_schema(schema)
            self._schemas = tuple(other for other in self._schemas if other != schema)

    def changed(self, name: TableName) -> None:
        """Note that a table in memory has other rows now."""
        with self.lock:
            self._changes[name] += 1

    def revision(self, name: TableName) -> str:
        """Return a text that changes whenever the rows of a table may have changed.

        Raises:
            NotFoundError: there is no such table.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise self.missing(name)
        if entry.path is not None:
            return files_revision(entry.path)
        if entry.kind == "memory":
            return f"{self._run} {self._changes[name]}"
        files = [files_revision(other.path) for other in self._entries.values() if other.path is not None]
        return " ".join([f"{self._run} {self._changes.total()}", *files])

    def put(self, entry: Entry) -> None:
        """Add an entry, or put it in place of the one of its name, and bring the views up to date."""
        with self.lock:
            others = {name: kept for name, kept in self._entries.items() if name != entry.name}
            self._entries = {**others, entry.name: entry}
            self._changes[entry.name] += 1
            self.refresh_views()

    def remove(self, name: TableName) -> None:
        """Remove an entry, and bring the views up to date."""
        with self.lock:
            self._entries = {other: kept for other, kept in self._entries.items() if other != name}
            self.refresh_views()

    def refresh_views(self) -> None:
        """Plan every plain view again: a stored plan holds on to the tables it was made from.

        A view whose tables are gone cannot be read, and works again once they are back.
        """
        for entry in [entry for entry in self._entries.values() if entry.kind == "view"]:
            try:
                fresh = self.planned(entry)
            except (InvalidInputError, UnsupportedError):
                fresh = replace(entry, provider=None)
            self._entries = {**self._entries, entry.name: fresh}

    def planned(self, view: Entry) -> Entry:
        """Return a plain view with its plan and schema.

        Raises:
            SqlError: the query cannot be planned.
        """
        text = view.query
        if view.columns:
            columns = ", ".join(quoted(column) for column in view.columns)
            text = f"SELECT * FROM ({text}) AS {quoted(view.name.name)} ({columns})"
        try:
            table = Table(self.context().sql_with_options(text, QUERY_ONLY))
        except Exception as error:
            raise mapped_error(error) from error
        return replace(view, provider=table, schema=table.schema)
