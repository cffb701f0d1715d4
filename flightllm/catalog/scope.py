"""One principal's view of the tables: only readable tables, with row filters and masks applied."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

import pyarrow as pa
import structlog
from datafusion import SessionContext
from datafusion.catalog import Catalog as SharedCatalog
from datafusion.catalog import SchemaProvider, Table

from flightllm.access.rights import Rights
from flightllm.catalog.entries import (
    Entry,
    Planned,
    SchemaTables,
    SystemSchema,
    check_files,
    columns_in,
    system_rows,
)
from flightllm.catalog.own_rows import OwnRows
from flightllm.catalog.planning import ViewPlans
from flightllm.catalog.store import TableStore
from flightllm.common.arrow_types import with_plain_types
from flightllm.common.names import CATALOG, STORED_SUFFIX, SYSTEM_SCHEMA, TableName, quoted
from flightllm.common.principal import Principal
from flightllm.datafusion.contexts import QUERY_ONLY, planned_text, with_types
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import (
    FlightLLMError,
    NotFoundError,
    PermissionDeniedError,
    SqlError,
    UnknownTableError,
    UnsupportedError,
)
from flightllm.sql.grants import AccessPolicy
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed
from flightllm.sql.tokens import tokenize

_log = structlog.get_logger(__name__)
_BARRIER = f" LIMIT {10**15}"
"""Keeps the query's conditions above the row filter. Below the filter, a condition could fail on
a hidden row, and its error would tell the row's value.

The limit has no other effect: no table has this many rows.
"""


class PrincipalScope:
    """A principal's view of the tables at one moment.

    A table with a row filter or masks becomes a view. The view reads the whole table under a hidden name, and the
    constructor plans the view. A view that a client created is planned again at its first look-up, over the
    principal's tables.
    """

    def __init__(self, store: TableStore, rights: Rights, own: str = "") -> None:
        """Take the temporary tables of the schema `own`, and no other temporary tables."""
        self.base = store.entries
        """The store's entries when this scope was made. The scope is out of date once the store has other entries."""
        self._store = store
        self._own = own
        self._rights = rights
        self._entries: dict[TableName, Entry] = {}
        self._refusals: dict[TableName, FlightLLMError] = {}
        self._own_rows: OwnRows | None = None
        if store.system is not None:
            self._own_rows = OwnRows(store.system, rights, self._reads, self._reads_all)
        self._plans = ViewPlans(store.limits, self._planning_context)
        self._shared = self._catalog(self._entries, self._plans.looked_up)
        for entry in store.visible(own).values():
            if self._is_readable(entry, rights):
                self._restrict(entry, rights)

    @property
    def entries(self) -> Mapping[TableName, Entry]:
        """Return the tables that the principal can read."""
        return self._entries

    @property
    def refusals(self) -> Mapping[TableName, FlightLLMError]:
        """Return the tables that the principal cannot read, each with the error for reading it."""
        return self._refusals

    def check(self, name: TableName) -> None:
        """Raise an error if the principal cannot read a table.

        Raises:
            UnknownTableError: the principal must not learn that the table exists.
            PermissionDeniedError: the principal has other rights to the table, or the table's policies no longer fit.
        """
        if refusal := self._refusals.get(name):
            raise type(refusal)(*refusal.args)  # a copy, because raising adds a traceback and text to the error

    def planned(self, entry: Entry) -> Entry:
        """Return one of the tables as the principal sees it, planned if it is a view.

        Raises:
            FlightLLMError: the view cannot be planned, for example because the principal cannot read its tables.
        """
        return self._plans.planned(entry, self._entries)

    def seen(self, entry: Entry) -> Entry | None:
        """Return the result of `planned`, or None if the principal cannot read the table."""
        try:
            return self.planned(entry)
        except FlightLLMError:
            return None

    def _catalog(self, entries: Mapping[TableName, Entry], planned: Planned) -> SharedCatalog:
        catalog = SharedCatalog.memory_catalog()
        hidden = set(self._store.attached_schemas).difference(schema for _, _, schema, _ in self._rights.grants)
        for schema in (*([self._own] if self._own else []), *self._store.schemas()):
            if schema != SYSTEM_SCHEMA and schema not in hidden:
                tables = _ScopedTables(schema, self, entries, planned)
                catalog.register_schema(schema, cast("SchemaProvider", tables))
        if self._own_rows is not None:
            catalog.register_schema(SYSTEM_SCHEMA, cast("SchemaProvider", SystemSchema(self._own_rows)))
        return catalog

    def _planning_context(self, entries: Mapping[TableName, Entry], planned: Planned) -> SessionContext:
        return self._store.context_over(self._catalog(entries, planned), planning=False, parallel=True)

    def context(self, *, planning: bool = False, parallel: bool = True) -> SessionContext:
        """Return a fresh context over these tables; see `TableStore.context`."""
        return self._store.context_over(self._shared, planning=planning, parallel=parallel)

    def system_rows(self, name: str) -> pa.Table:
        """Return the principal's rows of a system table; see `Catalog.system_rows`."""
        return system_rows(self._own_rows, name)

    def _reads(self, name: str) -> bool:
        return any(name == entry.display for entry in self._entries)

    def _reads_all(self, name: str) -> bool:
        """Return whether the principal sees all rows and values of a table.

        If any policy applies to the principal, views count as restricted: they can read restricted tables.
        """
        for entry in self._entries.values():
            if entry.name.display == name:
                through = entry.is_view and bool(self._rights.policies)
                return not (through or self._rights.is_restricted(entry.name))
        return False

    def _is_readable(self, entry: Entry, rights: Rights) -> bool:
        try:
            rights.check("SELECT", entry.name, entry.owner)
            if entry.is_view and rights.is_restricted(entry.name):
                raise _unfit(entry)
        except FlightLLMError as error:
            known = rights.knows(entry.name, entry.owner)
            self._refusals[entry.name] = error if known else unknown(entry.name)
            return False
        return True

    def _restrict(self, entry: Entry, rights: Rights) -> None:
        """Store a table as the principal sees it, or a refusal where its policies no longer fit the table."""
        try:
            self._entries[entry.name] = restricted(self._store, entry, rights)
        except FlightLLMError as error:
            _log.warning("a row filter or mask does not fit its table", table=entry.name.display, error=str(error))
            self._refusals[entry.name] = _unfit(entry)


def unknown(name: TableName) -> UnknownTableError:
    """Return DataFusion's error for a table that does not exist."""
    error = UnknownTableError(f"table '{CATALOG}.{name.schema}.{name.name}' not found")
    error.table = name.name
    return error


def _unfit(entry: Entry) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"the table {entry.name.display!r} cannot be read: one of its row filters or column masks no longer fits the"
        " table. Ask an admin to correct it; system.policies lists all filters and masks"
    )


class _ScopedTables(SchemaTables):
    """One schema of a scope, as DataFusion sees it."""

    def __init__(
        self, schema: str, scope: PrincipalScope, entries: Mapping[TableName, Entry], planned: Planned
    ) -> None:
        super().__init__(schema, lambda: entries, planned)
        self._scope = scope

    def table(self, name: str) -> Table | None:
        """Return a table's provider, or None if there is no such table.

        Raises:
            FlightLLMError: the principal cannot read the table.
        """
        self._scope.check(TableName(self._schema, name.removesuffix(STORED_SUFFIX)))
        whole = self._scope.base.get(TableName(self._schema, name.removesuffix(STORED_SUFFIX)))
        if name.endswith(STORED_SUFFIX) and whole is not None:
            check_files(whole)
            return whole.whole
        return super().table(name)


def restricted(store: TableStore, entry: Entry, rights: Rights) -> Entry:
    """Return a table as a view with a principal's row filters and masks, or unchanged where it has no policies.

    Raises:
        SqlError: an expression cannot be planned, or a mask's type does not fit its column.
    """
    if entry.kind == "view":
        return replace(entry, plan=entry.plan.renewed())
    filters, masks = rights.row_filters(entry.name), rights.masks(entry.name)
    if gone := masks.keys() - set(entry.schema.names):
        raise SqlError(f"a mask names the column {min(gone)!r}, but the table has no such column")
    if entry.provider is None or not (filters or masks):
        return entry
    name = entry.name if entry.stored else replace(entry.name, name=entry.name.name + STORED_SUFFIX)
    user = rights.principal.name
    columns = [
        f"({_bound(masks[c], user)}) AS {quoted(c)}" if c in masks else quoted(c) for c in entry.provider.schema.names
    ]
    text = f"SELECT {', '.join(columns)} FROM {name.sql} AS {quoted(entry.name.name)}"
    if filters:
        text += " WHERE " + " AND ".join(f"({_bound(condition, user)})" for condition in filters) + _BARRIER
    text = passed(ParsedText(text), columns_in(store.entries)).sql
    try:
        frame = planned_text(store.context(), text, QUERY_ONLY)
        _check_masks(masks, frame.schema(), entry.provider.schema)
        view = Table(with_types(frame, entry.provider.schema.types))
    except Exception as error:
        raise mapped_error(error) from error
    return replace(entry, provider=view, restricted=text)


def _check_masks(masks: Collection[str], masked: pa.Schema, table: pa.Schema) -> None:
    for found, column in zip(masked, table, strict=True):
        if column.name in masks and not _fits(found.type, column.type):
            raise SqlError(
                f"the mask of the column {column.name!r} has the type {found.type}, but the column has the type "
                f"{column.type}:"
                " write CAST(… AS …), NULL, or a value of the column's type"
            )


def _fits(kind: pa.DataType, column: pa.DataType) -> bool:
    """Return whether a mask's type fits a column: numbers fit numbers, times fit times, all types fit text."""
    kind, column = with_plain_types(pa.schema([("m", kind), ("c", column)]), unions=True).types
    both = (kind, column)
    return (
        kind in (column, pa.null())
        or pa.types.is_string(column)
        or all(pa.types.is_integer(one) or pa.types.is_floating(one) or pa.types.is_decimal(one) for one in both)
        or all(pa.types.is_date(one) or pa.types.is_timestamp(one) for one in both)
    )


def check_policy(store: TableStore, policy: AccessPolicy) -> None:
    """Check that a row filter or mask fits its table.

    Raises:
        NotFoundError: there is no such table or column.
        SqlError: the policy's expression cannot be planned, or the type of a mask does not fit its column.
    """
    entry = store.entries.get(policy.target)
    if entry is None:
        raise store.missing(policy.target, store.entries)
    if entry.is_view:
        raise UnsupportedError(
            f"{policy.target.display!r} is a view: put the filter or mask on the tables that the view reads"
        )
    if policy.column and policy.column not in entry.schema.names:
        known = ", ".join(entry.schema.names)
        raise NotFoundError(f"the table has no column {policy.column!r}; its columns are {known}")
    nobody = Principal("nobody", "readonly")
    restricted(store, entry, Rights(nobody, frozenset(), (policy,)))


def _bound(expression: str, user: str) -> str:
    """Return an expression in which the user's name replaces `current_user`."""
    literal = "'" + user.replace("'", "''") + "'"
    for token in reversed(tokenize(expression)):
        if token.is_word("current_user"):
            expression = f"{expression[: token.start]}{literal}{expression[token.end :]}"
    return expression
