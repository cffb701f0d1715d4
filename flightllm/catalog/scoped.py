"""The catalog in the hands of one principal: the same calls, what is not granted refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from flightllm.access.grants import Privilege
from flightllm.access.rights import Rights
from flightllm.catalog import statements
from flightllm.catalog.catalog import Catalog
from flightllm.catalog.contexts import QUERY_ONLY
from flightllm.catalog.entries import Entry, TableInfo
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.frozen import FrozenCatalog
from flightllm.catalog.rewriting import Collect
from flightllm.catalog.scope import Scope
from flightllm.catalog.store import TableStore
from flightllm.catalog.uploads import IngestMode
from flightllm.errors import PermissionDeniedError
from flightllm.sql.names import DEFAULT_SCHEMA, RESERVED, TableName
from flightllm.sql.statement import Statement

_MOST_SCOPES = 64


class Scopes:
    """Gives each principal its catalog; what was planned for it is kept while tables and rights stay the same."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store
        self._kept: dict[Rights, Scope] = {}
        self._making = Lock()

    def of(self, rights: Rights) -> Catalog:
        """Return the catalog in the hands of a principal, for one statement."""
        if rights.unlimited:
            return FrozenCatalog(self._catalog)
        scope = self._kept.get(rights)
        if scope is None or scope.base is not self._store.entries:
            with self._making:  # what one statement plans, those beside it need not plan too
                scope = self._kept.get(rights)
                if scope is None or scope.base is not self._store.entries:
                    scope = self._kept[rights] = Scope(self._store, rights)
                while len(self._kept) > _MOST_SCOPES:
                    del self._kept[next(iter(self._kept))]
        return ScopedCatalog(self._store, scope, rights)


class ScopedCatalog(Catalog):
    """A catalog for one statement of a principal who is no admin."""

    def __init__(self, store: TableStore, scope: Scope, rights: Rights) -> None:
        self.store = store
        self._scope = scope
        self._rights = rights
        self.owner = rights.principal.name

    # --- reading

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables that the principal may read."""
        return self._scope.entries

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over what the principal sees."""
        return self._scope.context(planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the schemas that have something for the principal, `system` last."""
        mine = {name.schema for name in self._scope.entries} | {DEFAULT_SCHEMA, *RESERVED}
        return [schema for schema in self.store.schemas() if schema in mine or self._rights.may_create(schema)]

    def tables(self) -> list[TableInfo]:
        """Return the tables that the principal may read."""
        listed = [found.info for entry in self._scope.entries.values() if (found := self._scope.seen(entry))]
        return sorted([*listed, *self.store.system_tables()], key=lambda info: info.name)

    def system_rows(self, name: str) -> pa.Table:
        """Return the principal's rows of a system table as they are now."""
        return self._scope.system_rows(name)

    def table(self, name: TableName | str) -> TableInfo:
        """Return one table; see `Catalog.table`.

        Raises:
            NotFoundError: there is no such table.
            PermissionDeniedError: the principal may not read it.
        """
        wanted = self.store.named(name, self._scope.base)
        if refusal := self._scope.refusals.get(wanted):
            raise refusal
        if entry := self._scope.entries.get(wanted):
            return self._scope.planned(entry).info
        return super().table(wanted)

    def revision(self, name: TableName) -> str:
        """Return a text that changes with a table's rows, also where the principal may not read it."""
        return self.store.revision(name, self._scope.base)

    def check_unrestricted(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` where the principal may not read every row and value of a table."""
        self.table(name)
        entry = self.store.entries.get(name)
        through = entry is not None and entry.kind in {"view", "ai_view"} and self._rights.policies
        if through or self._rights.is_restricted(name):  # a view may read what a policy is about
            raise PermissionDeniedError(
                f"you see a part of {name.display!r} only: use it in FROM, not where the whole table is needed"
            )

    def check_owned(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` unless the principal made a table, and sees it as a whole."""
        entry = self.store.entries.get(name)
        if entry is not None and entry.kind in {"view", "ai_view"}:
            self._rights.check_admin("an index over a view, which has the rows that its maker sees,")
        self._rights.check_change(repr(name.display), entry.owner if entry else None)
        self.check_unrestricted(name)

    # --- changing

    def ingest(
        self, name: TableName | str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], mode: IngestMode = "create"
    ) -> int:
        """Store batches in a table that the principal may make, replace or add to; see `Catalog.ingest`."""
        table = name if isinstance(name, TableName) else TableName(DEFAULT_SCHEMA, name)

        def check(entry: Entry | None) -> None:
            if entry is not None and mode in {"append", "create_append"}:
                self._rights.check("INSERT", table, entry.owner)
            else:
                self._check_making(table, entry)

        with self._allowed(table, check):
            return super().ingest(name, schema, batches, mode)

    def values(self, statement: Statement) -> DataFrame:
        """Plan the rows of an INSERT … VALUES; see `Catalog.values`."""
        name = statements.target_of(statement)
        self._check("INSERT", name, self.store.entries.get(name))
        return super().values(statement)

    def insert(self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Add rows; see `Catalog.insert`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check("INSERT", name, entry)):
            return super().insert(statement, schema, batches)

    def execute(self, statement: Statement, collect: Collect = DataFrame.collect) -> int:
        """Run a statement that the principal may; see `Catalog.execute`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check_change(statement, name, entry)):
            if statement.kind == "create_view":
                self._check_readable(statement.query or "")
            return super().execute(statement, collect)

    def check(self, statement: Statement) -> None:
        """Raise what `execute` would; see `Catalog.check`."""
        name = statements.target_of(statement)
        self._check_change(statement, name, self.store.entries.get(name))
        super().check(statement)

    def _check_change(self, statement: Statement, name: TableName, entry: Entry | None) -> None:
        match statement.kind:
            case "create_table" | "create_view":
                self._check_making(name, entry)
            case "drop_table" | "drop_view":
                self._rights.check_writer(f"DROP of {name.display!r}")
                if entry is not None:
                    self._rights.check_change(repr(name.display), entry.owner)
            case "update" | "delete":
                self._check("UPDATE" if statement.kind == "update" else "DELETE", name, entry)
                self.check_unrestricted(name)
            case _:
                self._rights.check_admin(statement.kind.replace("_", " ").upper())

    def check_create(self, statement: Statement) -> bool:
        """Tell whether CREATE … has anything to do; see `Catalog.check_create`."""
        name = statements.target_of(statement)
        self._check_making(name, self.store.entries.get(name))
        return super().check_create(statement)

    def create_ai_view(self, statement: Statement, schema: pa.Schema) -> None:
        """Keep a view with AI calls; see `Catalog.create_ai_view`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check_making(name, entry)):
            super().create_ai_view(statement, schema)

    @contextmanager
    def _allowed(self, name: TableName, check: Callable[[Entry | None], None]) -> Iterator[None]:
        """Check a change now, and once more as it is made: by then the table may be another one, of somebody else."""
        check(self.store.entries.get(name))
        with self.store.checking(check):
            yield

    def _check(self, privilege: Privilege, name: TableName, entry: Entry | None) -> None:
        self._rights.check(privilege, name, entry.owner if entry else None)

    def _check_making(self, name: TableName, entry: Entry | None) -> None:
        """Check that a table or view may be made under a name, in place of `entry`."""
        self._rights.check_create(name.schema)
        if entry is not None:
            self._rights.check_change(repr(name.display), entry.owner)

    def _check_readable(self, query: str) -> None:
        try:
            self.context().sql_with_options(query, QUERY_ONLY)
        except Exception as error:
            raise mapped_error(error) from error
