"""The catalog in the hands of one principal: the same calls, what is not granted refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from flightllm.access.rights import Rights
from flightllm.catalog import statements
from flightllm.catalog.catalog import Catalog
from flightllm.catalog.closing import closed
from flightllm.catalog.entries import Entry, TableInfo
from flightllm.catalog.frozen import FrozenCatalog
from flightllm.catalog.rewriting import Collect
from flightllm.catalog.scope import Scope
from flightllm.catalog.store import TableStore
from flightllm.catalog.uploads import IngestMode
from flightllm.common.names import DEFAULT_SCHEMA, RESERVED, TableName, is_temporary
from flightllm.datafusion.contexts import QUERY_ONLY
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import PermissionDeniedError
from flightllm.sql.grants import Privilege
from flightllm.sql.statement import Statement

SHARED = frozenset({"reading", "columns_of", "inline_views"})
"""Methods of `Catalog` that are the same for everybody: they see what `entries` and `table` let them see."""
_MOST_SCOPES = 64


class Scopes:
    """Gives each principal its catalog; what was planned for it is kept while tables and rights stay the same."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store
        self._kept: dict[tuple[Rights, str], Scope] = {}
        self._making = Lock()

    def of(self, rights: Rights, own: str = "") -> Catalog:
        """Return the catalog in the hands of a principal, for one statement; `own` has its session's tables."""
        if rights.unlimited:
            return FrozenCatalog(self._catalog, own)
        key = (rights, own)
        scope = self._kept.get(key)
        if scope is None or scope.base is not self._store.entries:
            with self._making:  # what one statement plans, those beside it need not plan too
                scope = self._kept.get(key)
                if scope is None or scope.base is not self._store.entries:
                    scope = self._kept[key] = Scope(self._store, rights, own)
                while len(self._kept) > _MOST_SCOPES:
                    del self._kept[next(iter(self._kept))]
        return ScopedCatalog(self._store, scope, rights)


@closed(shared=SHARED)
class ScopedCatalog(Catalog):
    """A catalog for one statement of a principal who is no admin; what it does not define is refused."""

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

    @property
    def whole_entries(self) -> Mapping[TableName, Entry]:
        """Return all tables there are, which row filters and masks may read."""
        return self._scope.base

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over what the principal sees."""
        return self._scope.context(planning=planning, parallel=parallel)

    def schemas(self) -> list[str]:
        """Return the schemas that have something for the principal, `system` last."""
        mine = {name.schema for name in self._scope.entries} | {DEFAULT_SCHEMA, *RESERVED}
        temporary = sorted(filter(is_temporary, mine))
        listed = [schema for schema in self.store.schemas() if schema in mine or self._rights.may_create(schema)]
        return [*temporary, *listed]

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
            NotFoundError: there is no such table, or the principal may not know of it.
            PermissionDeniedError: the principal may not read it.
        """
        wanted = self.store.named(name, self._scope.base)
        self._scope.check(wanted)
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
        self._check_known(name)
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
            if mode == "append":
                self._check("INSERT", table, entry)
            elif entry is not None and mode == "create_append":
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

    def filled(
        self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for all columns of a table that the principal may add to; see `Catalog.filled`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check("INSERT", name, entry)):
            yield from super().filled(statement, schema, batches)

    def insert(self, statement: Statement, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Add rows; see `Catalog.insert`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check("INSERT", name, entry)):
            return super().insert(statement, schema, batches)

    def execute(self, statement: Statement, collect: Collect = DataFrame.collect) -> int:
        """Run a statement that the principal may; see `Catalog.execute`."""
        name = statements.target_of(statement)
        if self._nothing_to_drop(statement, name):
            return -1
        with self._allowed(name, lambda entry: self._check_change(statement, name, entry)):
            if statement.kind == "create_view":
                self._check_readable(statement.query or "")
            return super().execute(statement, collect)

    @contextmanager
    def changing(self, statement: Statement) -> Iterator[Entry]:
        """Return the table that the principal changes; see `Catalog.changing`."""
        name = statements.target_of(statement)
        with self._allowed(name, lambda entry: self._check_change(statement, name, entry)):
            yield self.to_change(name)

    def to_change(self, name: TableName) -> Entry:
        """Return a table as it is stored; see `Catalog.to_change`."""
        entry = self.store.writable(name)
        return self._scope.base.get(name, entry)

    def check(self, statement: Statement) -> None:
        """Raise what `execute` would; see `Catalog.check`."""
        name = statements.target_of(statement)
        if not self._nothing_to_drop(statement, name):
            self._check_change(statement, name, self.store.entries.get(name))
            super().check(statement)

    def _nothing_to_drop(self, statement: Statement, name: TableName) -> bool:
        """Tell whether DROP … IF EXISTS is about a table that the principal may not know of, as if there was none."""
        drops = statement.kind in ("drop_table", "drop_view") and statement.exists_ok
        return drops and self._rights.principal.role != "readonly" and not self._knows(name)

    def _knows(self, name: TableName) -> bool:
        entry = self.store.entries.get(name)
        return entry is not None and self._rights.knows(name, entry.owner)

    def _check_known(self, name: TableName) -> None:
        """Raise `NotFoundError` where there is no table to change, or the principal may not know of it.

        Names of the server's own are no secret.
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
            case "update" | "delete" | "merge" | "insert":
                for privilege in _privileges(statement):
                    self._check(privilege, name, entry)
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
        self._check_known(name)
        self._rights.check(privilege, name, entry.owner if entry else None)

    def _check_making(self, name: TableName, entry: Entry | None) -> None:
        """Check that a table or view may be made under a name, in place of `entry`."""
        if is_temporary(name.schema):
            self._rights.check_writer(f"CREATE TEMP TABLE {name.name!r}")
        else:
            self._rights.check_create(name.schema)
        if entry is not None:
            self._rights.check_change(repr(name.display), entry.owner)

    def _check_readable(self, query: str) -> None:
        try:
            self.context().sql_with_options(query, QUERY_ONLY)
        except Exception as error:
            raise mapped_error(error) from error


def _privileges(statement: Statement) -> list[Privilege]:
    """Return what a statement that changes rows needs on its table, besides SELECT."""
    own: dict[str, Privilege] = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}
    change = statement.change
    kinds = [] if change is None else [action.kind for action in change.actions]
    if change is not None and change.conflict is not None:
        kinds.append(change.conflict.action.kind)
    found = {own[kind] for kind in (statement.kind, *kinds) if kind in own}
    return sorted(found)
