"""Run a change of rows: run its query, write the new files, run RETURNING, and then replace the table's list of files.

A statement with AI calls holds no lock while it asks a model. If another statement changes the table meanwhile, the
statement runs once more and holds the lock. A statement without AI calls holds the lock from the start.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from flightllm.catalog.entries import Entry, check_files, columns_in
from flightllm.catalog.managed import merge_small, put_files, rows_of, same_table
from flightllm.catalog.numbered import NumberedTable, numbered
from flightllm.catalog.store import TableStore
from flightllm.catalog.uploads import fitted
from flightllm.common.json_columns import ColumnTypes
from flightllm.common.limits import over_limit
from flightllm.common.names import quoted
from flightllm.common.stopping import text_is_read
from flightllm.config.session_settings import Settings
from flightllm.datafusion.contexts import scratch_context
from flightllm.dml.conflicts import ORDER, PROPOSED, conflict_change, ordered_rows, table_of, without_doubles
from flightllm.dml.files import Changes, Rewriting
from flightllm.dml.kept import RowWriter, cast_rows
from flightllm.dml.returning import RETURNED, Returning, returning
from flightllm.dml.selection import (
    ACTION,
    POSITION,
    TARGET,
    Done,
    Selection,
    check_alias,
    columns_query,
    inserts_by_bare_names,
    of_source,
    selection,
    source_aliases,
    with_rows,
    without_hidden,
)
from flightllm.errors import CancelledError, FlightLLMError, InternalError, SqlError, UnsupportedError
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.bind import SEARCH_CATALOG, scalar_context
from flightllm.execution.context import Services
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import SqlQuery, plan
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.runtime import SpoolLimits
from flightllm.sql.calls import Extracted
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.subqueries.subqueries import joined_subqueries
from flightllm.sql.query_columns import Known
from flightllm.sql.statement import Statement

_POLL_SECONDS = 0.05
Tables = Mapping[str, pa.Table | NumberedTable]


@dataclass(frozen=True, slots=True)
class Changed:
    """The number of rows that a statement changed, and the rows of RETURNING."""

    rows: int
    returned: pa.Table | None = None


class _TableChangedError(Exception):
    """Another statement changed the table while this one asked a model."""


def run_row_change(
    statement: Statement, record: QueryRecord, services: Callable[[], Services], settings: Settings
) -> Changed:
    """Run a change of rows. If `record` is cancelled, nothing changes.

    `services` returns the server's services with the tables as they are at the time of the call.

    Raises:
        CancelledError: the record was cancelled.
        FlightLLMError: the statement is wrong.
    """
    now = services()
    if now.functions.may_be_in(now.catalog.inline_views(ParsedText(statement.text)).sql):
        try:
            with now.catalog.changing(statement) as entry:
                return _Run(statement, record, now, settings, entry, locked=False).run()
        except _TableChangedError:
            now = services()
    with now.catalog.changing(statement) as before, _alone(now.catalog.store, before, record):
        now = services()
        with now.catalog.changing(statement) as entry:
            return _Run(statement, record, now, settings, entry, locked=True).run()


def check_row_change(statement: Statement, services: Services, settings: Settings) -> pa.Schema:
    """Plan a change of rows without running it; return the columns of RETURNING.

    Without RETURNING the schema is empty.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    with services.catalog.changing(statement) as entry:
        return _Planned(statement, services, settings, entry).check()


def explain_row_change(
    statement: Statement, services: Services, settings: Settings
) -> tuple[SqlQuery, tuple[str, str]]:
    """Return the query of a change, and the line that EXPLAIN adds to the query's plan.

    Raises:
        FlightLLMError: the statement is wrong.
    """
    with services.catalog.changing(statement) as entry:
        planned = _Planned(statement, services, settings, entry)
        planned.check()
        count = sum(file.rows for file in rows_of(entry).files)
        line = f"{statement.kind.upper()} of {entry.name.display}, which has {count:,} rows: EXPLAIN changes nothing"
        return planned.query(), ("change", line)


@contextmanager
def _alone(store: TableStore, entry: Entry, record: QueryRecord) -> Iterator[None]:
    """Keep other statements from changing a table inside the block. The wait for the lock can be cancelled."""
    lock = store.rewriting(rows_of(entry))
    if not (taken := lock.acquire(blocking=False)):
        text_is_read()  # the turn to read long texts does not wait for other statements
    while not taken and not lock.acquire(timeout=_POLL_SECONDS):
        if record.cancelled.is_set():
            raise CancelledError("the statement was cancelled")
    try:
        yield
    finally:
        lock.release()


class _Planned:
    """A change of rows that is planned but does not run."""

    def __init__(self, statement: Statement, services: Services, settings: Settings, entry: Entry) -> None:
        if statement.change is None:
            raise InternalError("a change of rows without its parts")
        check_files(entry)
        self.statement = statement
        self.services = services
        self.settings = replace(settings, quality=None)  # a wrong row would be changed for good
        self.entry = entry
        self.given = statement.change
        self.change = statement.change
        if statement.kind == "insert" and statement.change.conflict is not None:
            self.change = conflict_change(statement.change, entry)
        else:
            check_alias(self.change, entry.name)
            if any(action.of_source for action in self.change.actions):
                (alias,) = source_aliases(self.change.source)
                self.change = with_rows(self.change, self.plan(columns_query(self.change, alias)).schema.names)
            if inserts_by_bare_names(self.change, entry):
                (alias,) = source_aliases(self.change.source)
                columns = self.plan(columns_query(self.change, alias)).schema.names
                self.change = of_source(self.change, columns)
        self.returning = self._returning()

    def _returning(self) -> Returning | None:
        change = self.given
        if not change.returning:
            return None
        aliases = source_aliases(change.source) if change.source else []
        source = {alias: self.plan(columns_query(change, alias)).schema.names for alias in aliases}
        return returning(change, self.entry, source, self._columns_of)

    def _columns_of(self, table: str) -> Sequence[str] | None:
        """Return the columns of an item of FROM, or None if the item does not stand for itself."""
        try:
            names: Sequence[str] = self.plan(f"SELECT * FROM {table}").schema.names
        except FlightLLMError:
            return None
        return names

    def plan(self, sql: str, tables: Tables = MappingProxyType({}), settings: Settings | None = None) -> SqlQuery:
        """Plan a query of the change. Its errors do not mention the hidden columns that the query adds."""
        try:
            text = joined_subqueries(ParsedText(sql), self._columns_in(tables))
            return plan(text, self.services, settings or self.settings, tables)
        except SqlError as error:
            error.args = (without_hidden(str(error)),)
            raise

    def _columns_in(self, tables: Tables) -> Known:
        """Return the columns and views of stored tables, and the columns of the change's own tables."""
        own = {tuple(name.split(".")): table.schema for name, table in tables.items()}
        stored = columns_in(self.services.catalog.entries)

        def found(parts: Sequence[str]) -> Mapping[str, pa.DataType]:
            schema = own.get(tuple(parts))
            if schema is None:
                return stored(parts)
            types = ColumnTypes(zip(schema.names, schema.types, strict=True))
            types.schema = schema
            return types

        return replace(stored, columns_of=found, own_functions=self.services.functions.own_names)

    def plan_selection(self, chosen: Selection, tables: Tables) -> SqlQuery:
        """Plan the query that finds the rows to change.

        Where a column keeps its old value, the query has a call twice: for its answer, and for its error. The
        optimizer makes one request of both, so it is on. Two requests could end differently.

        Raises:
            UnsupportedError: a call would be asked twice all the same.
        """
        if not chosen.keeps:
            return self.plan(chosen.sql, tables)
        query = self.plan(chosen.sql, tables, replace(self.settings, optimizer=True))
        if isinstance(query, BatchQuery):
            raise UnsupportedError(
                f"on_error => 'keep' does not work in this statement ({query.reason}): store the answers by CREATE"
                " TABLE … AS with on_error => 'struct' first, and update from that table"
            )
        return query

    def selection(self) -> Selection:
        order = (ORDER,) if self.given.conflict else ()
        return selection(self.change, self.entry, (*(self.returning.extras if self.returning else ()), *order))

    def tables(self, proposed: pa.Table | None) -> Tables:
        found: dict[str, pa.Table | NumberedTable] = {TARGET: numbered(self.entry)}
        if proposed is not None:
            found[PROPOSED] = NumberedTable(self.entry.schema, table_of(proposed))
        return found

    @property
    def only_inserts(self) -> bool:
        return self.statement.kind == "insert" and self.given.conflict is None

    def inserted(self) -> tuple[Done, ...]:
        """Return the single action of an INSERT, whose rows already have all columns of the table."""
        return (Done("insert", {name: f"value{i}" for i, name in enumerate(self.entry.schema.names)}),)

    def query(self) -> SqlQuery:
        """Return the query that finds the rows to change, or, for an INSERT, the query whose rows are added."""
        if self.statement.kind == "insert":
            return plan(self.statement.parsed_query, self.services, self.settings)
        return self.plan_selection(self.selection(), self.tables(None))

    def check(self) -> pa.Schema:
        statement, catalog = self.statement, self.services.catalog
        if statement.kind == "insert":
            query = plan(statement.parsed_query, self.services, self.settings)
            fitted(catalog.store, self.entry, statement.columns, query.schema, ())
        extras: list[pa.Field] = []
        if not self.only_inserts:
            chosen = self.selection()
            proposed = ordered_rows(self.entry.schema, []) if statement.kind == "insert" else None
            schema = self.plan_selection(chosen, self.tables(proposed)).schema
            cast_rows(_scratch, schema, _types(schema, chosen))
            extras = [schema.field(name) for name in chosen.extras]
        if self.returning is None:
            return pa.schema([])
        names = [field.name for field in extras]
        empty = Changes(pa.schema([pa.field(POSITION, pa.int64()), *extras]).empty_table(), (), names)
        table = empty.returned_schema(self.entry.schema).empty_table()
        schema = self.plan(self.returning.sql, {RETURNED: table}).schema
        return pa.schema([f.with_name(self.returning.shown.get(f.name, f.name)) for f in schema])


class _Run(_Planned):
    """One attempt to run a change."""

    def __init__(
        self,
        statement: Statement,
        record: QueryRecord,
        services: Services,
        settings: Settings,
        entry: Entry,
        *,
        locked: bool,
    ) -> None:
        super().__init__(statement, services, settings, entry)
        self._record = record
        self._locked = locked
        self._store = services.catalog.store

    def run(self) -> Changed:
        limits = self.services.config.limits
        with tempfile.TemporaryDirectory(prefix="flightllm-", dir=limits.spill_folder) as folder:
            room = SpoolLimits(0, limits.spill_bytes)
            self._keeper = RowWriter(Path(folder), room, self._record.cancelled.is_set)
            changes = self._changes()
            rewriting = Rewriting(self._store, self.entry, changes, returning=self.returning is not None)
            try:
                files = rewriting.files()
                returned = self._returned(rewriting)
                if rewriting.changed:
                    with nullcontext() if self._locked else _alone(self._store, self.entry, self._record):
                        if not self._locked and not self._is_unchanged():
                            raise _TableChangedError
                        if self._record.cancelled.is_set():
                            raise CancelledError("the statement was cancelled")
                        inserted = changes.table[POSITION].null_count > 0
                        kept = merge_small(self._store, self.entry, files, rewriting.written) if inserted else files
                        put_files(self._store, self.entry, kept)
            finally:
                self._store.discard(file.name for file in rewriting.written)
        return Changed(rewriting.changed, returned)

    def _warn_of_promises(self, query: SqlQuery) -> None:
        """Say which calls let proxies choose rows: a session's targets do not hold here, but a call's own ones do."""
        for call in () if isinstance(query, PlainQuery) else query.calls:
            if call.promise is not None and call.promise.proxies and not call.promise.exact:
                self._record.warn(
                    f"{call.text}: by {call.promise} the {self.statement.kind.upper()} can change rows that the model"
                    " would not choose, and leave out others; leave out the targets to ask the model about every row"
                )

    def _is_unchanged(self) -> bool:
        return rows_of(same_table(self._store, self.entry)).revision == rows_of(self.entry).revision

    def _changes(self) -> Changes:
        proposed = self._proposed() if self.statement.kind == "insert" else None
        if self.only_inserts and proposed is not None:
            (action,) = self.inserted()
            count = proposed.num_rows
            columns = [pa.nulls(count, pa.int64()), pa.array(np.ones(count, np.int64)), *proposed.columns[:-1]]
            table = pa.Table.from_arrays(columns, names=[POSITION, ACTION, *action.values.values()])
            return Changes(table, (action,))
        chosen = self.selection()
        query = self.plan_selection(chosen, self.tables(proposed))
        self._warn_of_promises(query)
        schema, rows = query.schema, query.run(self._record)
        types = _types(schema, chosen)
        with closing(rows):
            cast = cast_rows(_scratch, schema, types)
            wanted = pa.schema([pa.field(n, kind) for n, kind in zip(schema.names, types, strict=True)])
            table = self._keeper.keep(wanted, cast(rows))
        table = self._sorted(table)
        if self.given.conflict is not None:
            table = without_doubles(table, chosen, self.given.conflict, self.entry)
        return Changes(self._once(table), chosen.actions, chosen.extras)

    def _proposed(self) -> pa.Table:
        """Return the rows that an INSERT adds, with all columns of the table and their position."""
        statement, catalog = self.statement, self.services.catalog
        if statement.adds_values and not self.services.functions.may_be_in(statement.query or ""):
            frame = catalog.values(statement)
            text_is_read()
            schema, columns = frame.schema(), tuple[str, ...]()
            rows = self.services.loop.stream(frame, self._record.cancelled.is_set)
        else:
            query = plan(statement.parsed_query, self.services, self.settings)
            schema, columns, rows = query.schema, statement.columns, query.run(self._record)
        with closing(rows):
            table = self._keeper.keep(self.entry.schema, fitted(self._store, self.entry, columns, schema, rows))
        return ordered_rows(self.entry.schema, table.to_batches())

    def _sorted(self, table: pa.Table) -> pa.Table:
        """Return the rows sorted by their number, with the rows to insert last.

        Rows with equal numbers are sorted by value, so that `_once` keeps the same row in every run.
        """
        positions = table[POSITION]
        there = positions.drop_null().to_numpy()
        # The query mostly returns the rows in order already, and then sorting is unnecessary.
        sound = positions.slice(0, len(there)).null_count == 0
        if sound and (len(there) < 2 or bool(np.all(there[1:] > there[:-1]))):
            return table
        name = f"{SEARCH_CATALOG}.public.changes"
        context = scalar_context(self.services, Extracted("", {}, {name: table}), parallel=False)
        keys = [POSITION, *(f.name for f in table.schema if f.name != POSITION and not pa.types.is_nested(f.type))]
        order = ", ".join(f"{quoted(key)} NULLS LAST" for key in keys)
        frame = context.sql(f"SELECT * FROM {name} ORDER BY {order}")
        with closing(self.services.loop.stream(frame, self._record.cancelled.is_set)) as rows:
            return self._keeper.keep(table.schema, (with_names(batch, table.schema) for batch in rows))

    def _once(self, table: pa.Table) -> pa.Table:
        """Return each row to change once: the first of those with an equal number.

        `table` is sorted by number, so a row repeats if its number equals the one before it:

        | row | number | again |
        |---|---|---|
        | 0 | 4 | no |
        | 1 | 4 | yes |
        | 2 | NULL: a row to insert | no |

        Raises:
            SqlError: MERGE or ON CONFLICT would change a row twice.
        """
        count = table.num_rows - table[POSITION].null_count
        numbers = table[POSITION].slice(0, count).to_numpy()
        again = np.zeros(table.num_rows, bool)
        again[1:count] = numbers[1:] == numbers[:-1]
        if not again.any():
            return table
        if self.change.merged:
            what = "ON CONFLICT DO UPDATE" if self.given.conflict else "MERGE"
            hint = "two rows of the INSERT have the same key" if self.given.conflict else "several source rows match it"
            raise SqlError(
                f"{what} cannot change a row of {self.entry.name.display} twice: {hint}; nothing was changed"
            )
        return table.filter(pa.array(~again))

    def _returned(self, rewriting: Rewriting) -> pa.Table | None:
        if self.returning is None:
            return None
        schema = rewriting.changes.returned_schema(self.entry.schema)
        rows = pa.Table.from_batches(rewriting.returned, schema)
        query = self.plan(self.returning.sql, {RETURNED: rows})
        shown, batches = query.schema, query.run(self._record)
        most = self.services.config.limits.result_bytes
        kept, size = [], 0
        with closing(batches):
            for batch in batches:
                kept.append(batch)
                size += batch.nbytes
                if most is not None and size > most:
                    found = f"RETURNING comes to {size:,} bytes or more"
                    raise over_limit("result_bytes", most, found, "return fewer columns; nothing was changed")
        table = pa.Table.from_batches(kept, shown)
        if table.num_rows != rewriting.changed:
            raise SqlError(
                "RETURNING gives one row for each changed row, so it takes no aggregates and no DISTINCT;"
                " nothing was changed"
            )
        return table.rename_columns([self.returning.shown.get(name, name) for name in table.column_names])


_scratch = partial(scratch_context, parallel=False)


def with_names(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the column names of a schema."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _types(schema: pa.Schema, chosen: Selection) -> list[pa.DataType]:
    """Return the type of each query column: the type of the table column that it changes, or its own type."""
    own = {POSITION: pa.int64(), ACTION: pa.int64(), **chosen.types}
    return [own.get(field.name, field.type) for field in schema]
