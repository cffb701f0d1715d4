"""The catalog for one principal: a snapshot for an admin, and checks of rights in each method for all others."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from flightllm.access.rights import Rights
from flightllm.catalog import statements
from flightllm.catalog.attached_names import known_to
from flightllm.catalog.catalog import Catalog
from flightllm.catalog.closing import closed
from flightllm.catalog.entries import Entry, TableInfo
from flightllm.catalog.rewriting import Collect
from flightllm.catalog.scope import PrincipalScope
from flightllm.catalog.store import TableStore
from flightllm.catalog.uploads import IngestMode
from flightllm.common.names import DEFAULT_SCHEMA, RESERVED, TableName, is_temporary
from flightllm.common.newest import Newest
from flightllm.datafusion.contexts import QUERY_ONLY, planned_text
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import PermissionDeniedError
from flightllm.sql.grants import Privilege
from flightllm.sql.statement import Statement

SHARED = frozenset({"reading", "columns_of", "inline_views"})
"""Methods of `Catalog` that need no check here: they reach data only through `entries` and `table`."""
_MOST_SCOPES = 64


class PrincipalScopes:
    """Makes the catalog of each principal. Plans are cached while tables and rights stay the same."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store
        self._kept = Newest[tuple[Rights, str], PrincipalScope](_MOST_SCOPES)
        self._making = Lock()

    def of(self, rights: Rights, own: str = "") -> Catalog:
        """Return a principal's catalog for one statement; `own` is the schema of its session's temporary tables."""
        if rights.unlimited:
            return FrozenCatalog(self._catalog, own)
        key = (rights, own)
        scope = self._kept.get(key)
        if scope is None or scope.base is not self._store.entries:
            with self._making:  # one thread plans, and concurrent statements reuse its plans
                scope = self._kept.get(key)
                if scope is None or scope.base is not self._store.entries:
                    scope = self._kept[key] = PrincipalScope(self._store, rights, own)
        return ScopedCatalog(self._store, scope, rights)


class FrozenCatalog(Catalog):
    """A catalog for one statement: it reads the tables of one moment, and changes the present tables."""

    def __init__(self, catalog: Catalog, own: str = "") -> None:
        """Take a snapshot of the tables, with the temporary tables of the schema `own`."""
        self.store = catalog.store
        self.owner = catalog.owner
        self._own = own
        self._entries = self.store.visible(own)
        self._frozen = self.store.catalog_of(self._entries)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables of the snapshot."""
        return self._entries

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over the tables of the snapshot; see `Catalog.context`."""
        return self.store.context_over(self._frozen, planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the names of all schemas: the temporary schema first, `system` last."""
        return [*([self._own] if self._own else []), *super().schemas()]


@closed(shared=SHARED)
class ScopedCatalog(Catalog):
    """A catalog for one statement of a principal who is not an admin. Methods without a check here raise an error."""

    def __init__(self, store: TableStore, scope: PrincipalScope, rights: Rights) -> None:
        self.store = store
        self._scope = scope
        self._rights = rights
        self.owner = rights.principal.name

    # --- reading

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables that the principal can read."""
        return self._scope.entries

    @property
    def whole_entries(self) -> Mapping[TableName, Entry]:
        """Return all present tables, which row filters and masks can read."""
        return self._scope.base

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over the principal's tables."""
        return self._scope.context(planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the schemas in which the principal can read or create a table, `system` last."""
        mine = {name.schema for name in self._scope.entries} | {DEFAULT_SCHEMA, *RESERVED}
        temporary = sorted(filter(is_temporary, mine))
        listed = [schema for schema in self.store.schemas() if schema in mine or self._rights.may_create(schema)]
        return [*temporary, *listed]

    def databases(self) -> list[str]:
        """Return the attached databases with a grant to the principal."""
        return sorted(known_to(self._rights, self.store.attached.all))

    def tables(self) -> list[TableInfo]:
        """Return the tables that the principal can read."""
        listed = [found.info for entry in self._scope.entries.values() if (found := self._scope.seen(entry))]
        return sorted([*listed, *self.store.system_tables()], key=lambda info: info.name)

    def system_rows(self, name: str) -> pa.Table:
        """Return the principal's present rows of a system table."""
        return self._scope.system_rows(name)

    def table(self, name: TableName | str) -> TableInfo:
        """Return one table; see `Catalog.table`.

        Raises:
            NotFoundError: there is no such table, or the principal must not learn of it.
            PermissionDeniedError: the principal has no right to read the table.
        """
        wanted = self.store.named(name, self._scope.base)
        self._scope.check(wanted)
        if entry := self._scope.entries.get(wanted):
            return self._scope.planned(entry).info
        return super().table(wanted)

    def revision(self, name: TableName) -> str:
        """Return a text that changes with a table's rows, also for a table that the principal cannot read."""
        return self.store.revision(name, self._scope.base)

    def check_unrestricted(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` if some rows or values of a table are hidden from the principal."""
        self.table(name)
        entry = self.store.entries.get(name)
        through = entry is not None and entry.is_view and self._rights.policies
        if through or self._rights.is_restricted(name):  # a view can read a table that has a policy
            raise PermissionDeniedError(
                f"you can see only a part of {name.display!r}: use it in FROM, not where the whole table is needed"
            )

    def check_owned(self, name: TableName) -> None:
        """Raise `PermissionDeniedError` unless the principal owns a table and sees all of it."""
        self._check_known(name)
        entry = self.store.entries.get(name)
        if entry is not None and entry.is_view:
            self._rights.check_admin("an index over a view (it holds the rows that its creator sees)")
        self._rights.check_change(repr(name.display), entry.owner if entry else None)
        self.check_unrestricted(name)

    # --- changing

    def ingest(
        self, name: TableName | str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], mode: IngestMode = "create"
    ) -> int:
        """Store batches in a table that the principal can create, replace or add to; see `Catalog.ingest`."""
        table = name if isinstance(name, TableName) else TableName(DEFAULT_SCHEMA, name)

        def check(table: TableName, entry: Entry | None) -> None:
            if mode == "append":
                self._check("INSERT", table, entry)
            elif entry is not None and mode == "create_append":
                self._rights.check("INSERT", table, entry.owner)
            else:
                self._check_making(table, entry)

        with self._allowed([table], check):
            return super().ingest(name, schema, batches, mode)

    def values(self, statement: Statement) -> DataFrame:
        """Plan the rows of an INSERT … VALUES; see `Catalog.values`."""
        name = statements.target_of(statement)
        self._check("INSERT", name, self.store.entries.get(name))
        return super().values(statement)

    def filled(
        self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for all columns of a table to which the principal can add rows; see `Catalog.filled`."""
        name = statements.target_of(statement)
        with self._allowed([name], partial(self._check, "INSERT")):
            yield from super().filled(statement, schema, batches)

    def insert(self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Add rows; see `Catalog.insert`."""
        name = statements.target_of(statement)
        with self._allowed([name], partial(self._check, "INSERT")):
            return super().insert(statement, schema, batches)

    def execute(self, statement: Statement, collect: Collect = DataFrame.collect) -> int:
        """Run a statement that the principal has a right to; see `Catalog.execute`."""
        names = self.targets(statement)
        if not names:
            return -1
        if statement.dropped:
            statement = replace(statement, dropped=names)
        with self._allowed(names, partial(self._check_change, statement)):
            if statement.kind == "create_view":
                self._check_readable(statement.query or "")
            return super().execute(statement, collect)

    @contextmanager
    def changing(self, statement: Statement) -> Iterator[Entry]:
        """Return the table that the principal changes; see `Catalog.changing`."""
        name = statements.target_of(statement)
        with self._allowed([name], partial(self._check_change, statement)):
            yield self.to_change(name)

    def adding_to(self, statement: Statement) -> Entry:
        """Return the table to which an INSERT of the principal adds rows; see `Catalog.adding_to`."""
        name = statements.target_of(statement)
        self._check("INSERT", name, self.store.entries.get(name))
        return self.to_change(name)

    def to_change(self, name: TableName) -> Entry:
        """Return a table as it is stored; see `Catalog.to_change`."""
        entry = self.store.writable(name)
        return self._scope.base.get(name, entry)

    def check(self, statement: Statement) -> None:
        """Raise the errors of `execute` that planning finds; see `Catalog.check`."""
        names = self.targets(statement)
        for name in names:
            self._check_change(statement, name, self.store.entries.get(name))
        if names:
            super().check(replace(statement, dropped=names) if statement.dropped else statement)

    def targets(self, statement: Statement) -> tuple[TableName, ...]:
        """Return what a statement changes; for DROP … IF EXISTS, a table unknown to the principal counts as missing."""
        names = statements.targets_of(statement)
        if not (statement.dropped and statement.exists_ok) or self._rights.principal.role == "readonly":
            return names
        return tuple(filter(self._knows, names))

    def _knows(self, name: TableName) -> bool:
        entry = self.store.entries.get(name)
        return entry is not None and self._rights.knows(name, entry.owner)

    def _check_known(self, name: TableName) -> None:
        """Raise `NotFoundError` if the table is missing, or if the principal must not learn that it exists.

        The names of system tables are not secret.
        """
        self._rights.check_writer(f"a change of {name.display!r}")
        if name.schema not in RESERVED and not self._knows(name):
            raise self.store.missing(name)

    def _check_change(self, statement: Statement, name: TableName, entry: Entry | None) -> None:
        match statement.kind:
            case "create_table" | "create_view":
                self._check_making(name, entry)
            case "drop_table" | "drop_view":
                self._check_known(name)
                if entry is not None:
                    self._rights.check_change(repr(name.display), entry.owner)
            case "rename_table" | "rename_view" if name == statement.renamed:
                self._check_making(name, entry)
            case "rename_table" | "rename_view":
                self._check_known(name)
                if entry is not None:
                    self._rights.check_change(repr(name.display), entry.owner)
                if statement.renamed is not None:
                    self._check_making(statement.renamed, None)
            case "update" | "delete" | "truncate" | "merge" | "insert":
                for privilege in _privileges(statement):
                    self._check(privilege, name, entry)
                self.check_unrestricted(name)
            case _:
                self._rights.check_admin(statement.kind.replace("_", " ").upper())

    def check_create(self, statement: Statement) -> bool:
        """Return whether CREATE … must do anything; see `Catalog.check_create`."""
        name = statements.target_of(statement)
        self._check_making(name, self.store.entries.get(name))
        return super().check_create(statement)

    def create_ai_view(self, statement: Statement, schema: pa.Schema) -> None:
        """Store a view with AI calls; see `Catalog.create_ai_view`."""
        name = statements.target_of(statement)
        with self._allowed([name], self._check_making):
            super().create_ai_view(statement, schema)

    @contextmanager
    def _allowed(self, names: Iterable[TableName], check: Callable[[TableName, Entry | None], None]) -> Iterator[None]:
        """Check a change now, and again when it takes effect: by then another user's table can have the name."""
        for name in names:
            check(name, self.store.entries.get(name))
        with self.store.checking(check):
            yield

    def _check(self, privilege: Privilege, name: TableName, entry: Entry | None) -> None:
        self._check_known(name)
        self._rights.check(privilege, name, entry.owner if entry else None)

    def _check_making(self, name: TableName, entry: Entry | None) -> None:
        """Check the right to create a table or view under a name, in place of `entry`."""
        if is_temporary(name.schema):
            self._rights.check_writer(f"CREATE TEMP TABLE {name.name!r}")
        else:
            self._rights.check_create(name.schema)
        if entry is not None:
            self._rights.check_change(repr(name.display), entry.owner)

    def _check_readable(self, query: str) -> None:
        try:
            planned_text(self.context(), query, QUERY_ONLY)
        except Exception as error:
            raise mapped_error(error) from error


def _privileges(statement: Statement) -> list[Privilege]:
    """Return the privileges besides SELECT that a statement needs on the table that it changes."""
    own: dict[str, Privilege] = {"insert": "INSERT", "update": "UPDATE"}
    own |= dict.fromkeys(("delete", "truncate"), "DELETE")
    change = statement.change
    kinds = [] if change is None else [action.kind for action in change.actions]
    if change is not None and change.conflict is not None:
        kinds.append(change.conflict.action.kind)
    found = {own[kind] for kind in (statement.kind, *kinds) if kind in own}
    return sorted(found)
