"""The sessions of a database: the interface for the protocol layer, the command line and tests."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import structlog

from flightllm.access.rights import Rights
from flightllm.catalog import Catalog, IngestMode, TableInfo
from flightllm.catalog.kept_rows import KeptRows
from flightllm.catalog.scoped import PrincipalScopes
from flightllm.common.limits import TimeLimit
from flightllm.common.names import is_temporary
from flightllm.common.principal import Principal
from flightllm.common.stopping import stopped_if
from flightllm.config.session_settings import Settings
from flightllm.datafusion.errors import mapped_error, panics_mapped
from flightllm.datafusion.run import Batches
from flightllm.ddl.dispatch import bound_texts, change, check
from flightllm.deferred.handle import HandleQuery
from flightllm.dialect.rewriting import DEFAULT
from flightllm.dml import Changed
from flightllm.errors import CancelledError, FlightLLMError, InvalidInputError, PermissionDeniedError, UnsupportedError
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.execution.deferral import DeferredStatement
from flightllm.execution.describe import Description, describe
from flightllm.execution.kept_plans import Circumstances, KeptPlan, keep
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.query import Query
from flightllm.execution.result import ResultBatches
from flightllm.execution.substrait_query import plan_substrait
from flightllm.execution.utility import EmptyQuery
from flightllm.execution.why import WhyQuery
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import CancelToken, QueryRecord
from flightllm.observe.session_log import SessionFacts, SessionLog
from flightllm.observe.statement_texts import without_its_secrets
from flightllm.session.deferring import handle_of, is_deferred_change, kept_settings, query_of, row_of, waiting
from flightllm.session.place import SessionPlace
from flightllm.session.reading import StatementReader, plan_statement
from flightllm.session.transactions import Transactions
from flightllm.session.variables import DIALECT as WITH_VARIABLES
from flightllm.session.variables import Assignment, values_of
from flightllm.sql.batch_results import has_late_id
from flightllm.sql.classify import BEGINS_SELECT, classify
from flightllm.sql.client_parameters import ParameterTable
from flightllm.sql.delivery_option import without_delivery
from flightllm.sql.guard import check_bound
from flightllm.sql.names import OutputNames
from flightllm.sql.parameters import bind, each_row
from flightllm.sql.parsed_text import ParsedText, mentions
from flightllm.sql.statement import Statement
from flightllm.storage.folder import Reader

_log = structlog.get_logger(__name__)
_EMPTY = pa.schema([])
_OF_ROWS: Final = frozenset({"insert", "update", "delete", "merge"})
_OF_SESSION: Final = frozenset({"set", "reset", "search_path", "transaction", "parameter"})
"""The kinds of statement that change nothing but their session."""


def _no_columns() -> None:
    """Return None, for queries without operators that make AI calls."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query that runs while the caller pulls `batches`. Closing `batches`, or `query.cancel()`, stops the query."""

    schema: pa.Schema
    batches: ResultBatches
    query: QueryRecord
    answer_columns: Callable[[], tuple[int, ...] | None] = _no_columns
    """Returns the columns that depend on AI calls, or None if nothing tells the prompts of a row."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a change with RETURNING: the number of changed rows, and the returned rows."""

    affected: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class SessionState:
    """The settings and the search path of a session, and its row in `system.sessions`."""

    settings: Settings
    path: tuple[str, ...]
    facts: SessionFacts


class Session:
    """One client's settings and statements. Statements can run at the same time."""

    def __init__(
        self,
        services: Services,
        queries: QueryLog,
        sessions: SessionLog,
        scopes: PrincipalScopes,
        principal: Principal,
        peer: str,
    ) -> None:
        self.principal = principal
        self._all = services
        self._scopes = scopes
        self._queries = queries
        self._sessions = sessions
        self._settings = Settings()
        store = services.catalog.store
        self._place = SessionPlace(store, lambda: self._services.catalog, principal.name, services.functions.own_names)
        self._reader = StatementReader(
            self._place,
            lambda: self._services,
            services.config.limits,
            lambda: self.id,
            lambda: bool(store.attached.all),
        )
        self._reader.restores = principal.is_admin
        self._transactions = Transactions()
        self._files = KeptRows()
        self._record = sessions.open(self._changed, principal.name, peer)
        self.id = self._record.session_id

    def _changed(self) -> dict[str, str]:
        return self._settings.changed()

    def time_limit(self, settings: Mapping[str, str]) -> TimeLimit:
        """Return how long a statement can run under the session's settings and `settings`.

        Raises:
            InvalidInputError: a key of `settings` is not a setting, or its value is not allowed.
        """
        chosen = self._settings.with_values(settings)
        return TimeLimit.of(self._all.config.limits.statement_seconds, chosen.timeout)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Count a statement, bind its user and session to log events, and turn DataFusion's panics into errors."""
        self._record.used()
        with structlog.contextvars.bound_contextvars(user=self.principal.name, session_id=self.id), panics_mapped():
            yield

    def speak_postgres(self, parameters: ParameterTable | None = None) -> None:
        """Answer all queries about `information_schema` and `version()` as PostgreSQL does, from now on.

        `parameters` are those that the client's connection has.
        """
        from flightllm.pg_catalog.facts import FULL_VERSION

        self._place.version = FULL_VERSION
        self._reader.as_postgres = True
        self._reader.parameters = parameters

    @property
    def rights(self) -> Rights:
        """Return the current rights of the session's user."""
        return self._all.access.rights(self.principal)

    @property
    def _services(self) -> Services:
        """Return the server's services for one statement, with the catalog as the session's user sees it now."""
        return self._services_of(self.rights)

    def _services_of(self, rights: Rights) -> Services:
        catalog = self._scopes.of(rights, self._place.temporary)
        functions = self._all.functions.with_stored(self._all.objects.stored_functions)
        return replace(self._all, catalog=catalog, rights=rights, files=self._files, functions=functions)

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as the session's user sees it now, with the session's temporary tables."""
        return self._services.catalog

    @contextmanager
    def _failures_noted(self, text: str, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
        """Record a query that cannot be planned. Running queries and changes write records of their own."""
        try:
            yield
        except Exception as error:
            with suppress(FlightLLMError):
                self._reader.explain(error, text, self._settings.with_values(settings).dialect)
            if isinstance(error, FlightLLMError):
                error.args = (without_its_secrets(str(error), text),)
            said = str(error) if isinstance(error, FlightLLMError) else "internal error"
            record = self._queries.plan(text, user=self.principal.name, session_id=self.id)
            record.finish("cancelled" if isinstance(error, CancelledError) else "failed", error=said)
            raise

    def is_update(self, sql: str, settings: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Return whether a statement changes something and returns no rows; only the text is read.

        Raises:
            FlightLLMError: the kind of the statement is unknown or not supported.
        """
        with self._failures_noted(sql, settings):
            sql, chosen = self._given(sql, settings)
            if chosen.dialect == DEFAULT and ";" not in sql and BEGINS_SELECT.match(sql):
                return False  # the plan reads the text, and finds its errors
            statement = self._reader.statement(sql, chosen)
            return statement.is_update and not self._defers(statement, chosen)

    def _given(self, sql: str, settings: Mapping[str, str]) -> tuple[str, Settings]:
        """Return a statement and its settings: those of the session, of the call, and of its option `delivery`.

        Raises:
            InvalidInputError: a key of `settings` is not a setting, or its value is not allowed.
            SqlError: the option has a wrong form.
        """
        chosen = self._settings.with_values(settings)
        text, delivery = without_delivery(sql)
        return text, chosen if delivery is None else chosen.with_values({"delivery": delivery})

    def changes_temporary(self, sql: str) -> bool:
        """Return whether a statement changes the rows of a temporary table; only the text is read.

        Raises:
            FlightLLMError: see `is_update`.
        """
        with self._failures_noted(sql, {}):
            found = self._reader.statement(*self._given(sql, {}))
        return found.kind in _OF_ROWS and found.target is not None and is_temporary(found.target.schema)

    def returns_rows(self, sql: str, settings: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Return whether a statement changes something and has RETURNING; only the text is read.

        Raises:
            FlightLLMError: see `is_update`.
        """
        with self._failures_noted(sql, settings):
            return bool(self._reader.statement(*self._given(sql, settings)).returning)

    def describe(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Description:
        """Plan a statement without running it, with a row of parameters or with stand-in values that fit.

        `settings` hold for this call only.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        with self._failures_noted(sql, settings):
            return self._described(*self._given(sql, settings), parameters)

    def _described(self, sql: str, settings: Settings, parameters: pa.RecordBatch | None = None) -> Description:
        read = self._reader.statement(sql, settings, None if parameters is None else parameters.schema)
        if parameters is None and read.parameters and has_late_id(read.whole):
            raise InvalidInputError(  # clients take "unsupported" for a server that prepares no statements
                "the columns of batch_result are known once its id is: write the id as a text, as in"
                " batch_result('1f2e3d4c5b6a'), or bind it before the statement is described"
            )
        values = parameters if read.catalog is None else None
        bound = read.whole if values is None else self._reader.with_values(read.whole, values)
        circumstances = self._circumstances(settings, bound)
        reader, keeps, plans = self._reading(bound, circumstances.rights), False, list[KeptPlan]()
        planned, waits = list[Query](), list[Query]()
        with panics_mapped(), self._all.watch.planning(bound.sql, circumstances.rights.blamed):
            services = self._services_of(circumstances.rights)

            if read.catalog is not None:
                reader.close()
                return self._described_catalog(read, parameters, services, settings)

            def schema_of(statement: Statement) -> pa.Schema:
                if statement.is_update:
                    _check_writable(statement, settings)
                    if self._defers(statement, settings):
                        handle = handle_of(statement, services, settings, self._deferring(sql, settings, parameters))
                        if handle is None:
                            return _EMPTY
                        waits.append(handle)
                        return handle.schema
                    return self._check(statement, services)
                named = replace(statement, names=read.names)
                query = plan_statement(named, services, circumstances.settings)
                if settings.delivery == "batch":
                    deferring = self._deferring(sql, settings, parameters)
                    query = waiting(query, named, services, circumstances.settings, deferring)
                kept = keep(query, named, services, circumstances, reader)
                plans[:] = [kept] if kept is not None else []
                planned.append(query)
                return query.schema

            try:
                found = describe(read, services, schema_of, parameters)
                asks_none = bool(planned) and all(isinstance(one, PlainQuery) for one in planned)
                # a change that waits returns its handle, so clients must execute it as a query
                found = replace(found, asks_no_model=asks_none, is_update=found.is_update and not waits)
                if plans and parameters is None and not read.parameters:
                    keeps, found = True, replace(found, plan=plans[0])
                return found
            finally:
                if not keeps:
                    reader.close()

    def _described_catalog(
        self, read: Statement, values: pa.RecordBatch | None, services: Services, settings: Settings
    ) -> Description:
        """Describe a query about the catalog; without values, NULLs stand in for its parameters."""
        from flightllm.pg_catalog.columns import result_field
        from flightllm.pg_catalog.parameters import parameter_kinds

        kinds = parameter_kinds(read.whole.sql, read.parameters)
        fields = pa.schema([result_field(name, kind, None) for name, kind in zip(read.parameters, kinds, strict=True)])
        if values is None and read.parameters:
            values = pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in kinds], schema=fields)
        statement = replace(classify(bind(read.whole, values)), catalog=read.catalog)
        found = plan_statement(statement, services, settings)
        return Description(found.schema, is_update=False, parameters=fields)

    def _circumstances(self, settings: Settings, text: ParsedText) -> Circumstances:
        """Return the current state of everything that the plan of a statement depends on."""
        store, place, rights = self._all.catalog.store, self._place.standing, self.rights
        store.refresh(_mentions(text, rights), stopped)  # a changed file gets a new entry
        variables = self._reader.variables.state + self._reader.script_variables.state
        return Circumstances(store.entries, self._all.objects.revision, rights, settings, place, variables)

    def _reading(self, text: ParsedText | None, rights: Rights, is_stopped: Callable[[], bool] = stopped) -> Reader:
        """Register a statement as a reader of its tables, or of all tables; see `Catalog.reading`."""
        return self._all.catalog.reading(None if text is None else _mentions(text, rights), is_stopped)

    def _check(self, statement: Statement, services: Services) -> pa.Schema:
        match statement.kind:
            case "set":
                self._settings.with_values({statement.key or "": statement.value or ""})
            case "reset":
                self._settings.reset(statement.key or "")
            case "search_path":
                self._place.check(statement.columns)
            case "transaction" | "parameter":
                pass
            case _:
                return check(statement, services, self._settings)
        return _EMPTY

    def execute(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: CancelToken | None = None,
    ) -> QueryResult:
        """Plan a query with at most one row of parameters; the query runs while the caller pulls its batches.

        Parameters without a row give an empty result with the query's schema.

        `settings` hold for this call only. Setting `cancelled` stops the query, as `QueryResult.query.cancel()` does.

        Raises:
            FlightLLMError: the query is wrong.
        """
        with self._failures_noted(sql, settings):
            sql, chosen = self._given(sql, settings)
            no_rows = parameters is not None and parameters.num_rows == 0
            read = self._reader
            statement = read.statement(sql, chosen) if no_rows else read.bound(sql, chosen, parameters)
            changes = self._defers(statement, chosen)
            if changes:
                _check_writable(statement, chosen)
            elif statement.is_update:
                kind = statement.kind.replace("_", " ").upper()
                if statement.returning:
                    raise UnsupportedError(f"{kind} … RETURNING changes rows: call update_returning")
                raise UnsupportedError(f"{kind} returns no rows: send it as an update")

            def planned(services: Services) -> Query:
                if no_rows:
                    return EmptyQuery(self._described(sql, chosen).schema)
                deferring = self._deferring(sql, chosen, parameters)
                if changes:
                    return self._noted(self._handle(statement, services, chosen, deferring))
                query = plan_statement(statement, services, chosen)
                if chosen.delivery == "batch":
                    return self._noted(waiting(query, statement, services, chosen, deferring))
                return query

            return self._started(statement.kind, sql, statement.whole.sql, planned, statement.whole, cancelled)

    def execute_query_of(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, cancelled: CancelToken | None = None
    ) -> QueryResult:
        """Run the query of an INSERT … SELECT or CREATE TABLE AS, and change nothing; see `execute`.

        Raises:
            FlightLLMError: the query is wrong.
        """
        with self._failures_noted(sql, {}):
            sql, chosen = self._given(sql, {})
            statement = self._reader.bound(sql, chosen, parameters)
            planned = lambda services: query_of(statement, services, chosen)  # noqa: E731 - one line
            return self._started(statement.kind, sql, statement.whole.sql, planned, statement.whole, cancelled)

    def _defers(self, statement: Statement, settings: Settings) -> bool:
        """Return whether a statement is a change that waits for a batch endpoint; see `is_deferred_change`."""
        return settings.delivery == "batch" and is_deferred_change(statement, self._services)

    def _deferring(
        self, sql: str, settings: Settings, parameters: pa.RecordBatch | pa.Table | None
    ) -> Callable[[Statement], DeferredStatement]:
        """Return a function that keeps a statement of this session for a later run.

        The function raises UnsupportedError if the statement needs what only this session has.
        """

        def deferred(statement: Statement) -> DeferredStatement:
            temporary = self._place.temporary
            if temporary and temporary in statement.whole.sql:
                raise UnsupportedError(
                    "flightllm.delivery is 'batch', and the statement runs after its session, which then has no"
                    " temporary tables: store their rows by CREATE TABLE … AS SELECT, or open files in place of frames"
                )
            if self._reader.variables.state or self._reader.script_variables.state:
                raise UnsupportedError(
                    "flightllm.delivery is 'batch', and the statement runs after its session, which then has no"
                    " variables: write the values themselves, and UNSET the variables"
                )
            principal, path = self.principal, self._place.path
            kept, as_postgres = dict(kept_settings(settings)), self._reader.as_postgres
            is_update = statement.kind != "query"
            return DeferredStatement(sql, row_of(parameters), kept, path, principal, is_update, as_postgres)

        return deferred

    def _handle(
        self,
        statement: Statement,
        services: Services,
        settings: Settings,
        deferring: Callable[[Statement], DeferredStatement],
    ) -> Query:
        found = handle_of(statement, services, settings, deferring)
        if found is None:
            kind = statement.kind.replace("_", " ").upper()
            raise UnsupportedError(f"{kind} returns no rows: send it as an update")
        return found

    def _noted(self, query: Query) -> Query:
        """Count a statement that is kept for later among the changes of a transaction: ROLLBACK does not undo it."""
        if isinstance(query, HandleQuery):
            self._transactions.changed()
        return query

    def why(
        self, sql: str, row: Sequence[str | None], settings: Mapping[str, str] = MappingProxyType({})
    ) -> QueryResult:
        """Tell the prompts and answers behind a row of a query, with the rights of the query; see `WhyQuery`.

        Raises:
            FlightLLMError: the query is wrong, or its prompts cannot be told.
        """
        with self._failures_noted(sql, settings):
            chosen = self._settings.with_values(settings)
            statement = self._reader.bound(sql, chosen, None)
            if statement.kind != "query":
                raise UnsupportedError("only a query has rows with prompts: write SELECT")

            def planned(services: Services) -> Query:
                text = statement.parsed_query
                if services.catalog.inline_views(text) is not text:
                    raise UnsupportedError("the query tells no prompts: its AI calls are in a view")
                return WhyQuery(plan_statement(statement, services, chosen), row)

            return self._started("explain", sql, statement.whole.sql, planned, statement.whole)

    def execute_planned(
        self, plan: KeptPlan, sql: str, settings: Mapping[str, str] = MappingProxyType({})
    ) -> QueryResult | None:
        """Run a query by the plan that `describe` made; return None if that plan is out of date or already used.

        Raises:
            InvalidInputError: a key of `settings` is not a setting, or its value is not allowed.
        """
        since, chosen = time.time_ns(), self._settings.with_values(settings)
        circumstances = self._circumstances(chosen, plan.statement.whole)
        taken = plan.take(circumstances)
        if taken is None:
            return None
        with self._statement():
            return self._running(*taken, plan.statement.kind, sql, sql, since, circumstances.rights)

    def describe_plan(self, plan: bytes) -> Description:
        """Plan a serialized Substrait plan without running it.

        Raises:
            FlightLLMError: the plan is wrong.
        """
        watch, catalog, noting = self._all.watch, self._all.catalog, self._failures_noted(_shown_plan(plan))
        with noting, watch.planning(_told_apart(plan), self.rights.blamed), catalog.reading(), panics_mapped():
            query = plan_substrait(plan, self._services, self._settings)
        return Description(query.schema, is_update=False, parameters=_EMPTY)

    def execute_plan(self, plan: bytes, settings: Mapping[str, str] = MappingProxyType({})) -> QueryResult:
        """Plan a serialized Substrait plan; the query runs while the caller pulls its batches.

        Raises:
            FlightLLMError: the plan is wrong.
        """
        text = _shown_plan(plan)
        with self._failures_noted(text):
            chosen = self._settings.with_values(settings)
            return self._started("query", text, _told_apart(plan), lambda of: plan_substrait(plan, of, chosen), None)

    def _started(
        self,
        kind: str,
        text: str,
        noted: str,
        plan: Callable[[Services], Query],
        reads: ParsedText | None,
        cancelled: CancelToken | None = None,
    ) -> QueryResult:
        """Plan a query. `noted` identifies the query after a crash of the server.

        `reads` is a text that names the tables that the query reads, or None if there is no such text.
        """
        since, watch, rights = time.time_ns(), self._all.watch, self.rights
        with self._statement(), watch.planning(noted, rights.blamed):
            reader = self._reading(reads, rights)
            query = plan(self._services_of(rights))
        return self._running(query, reader, kind, text, noted, since, rights, cancelled)

    def _running(  # noqa: PLR0913, PLR0917 - each is a part of the record or of the query
        self,
        query: Query,
        reader: Reader,
        kind: str,
        text: str,
        noted: str,
        since: int,
        rights: Rights,
        cancelled: CancelToken | None = None,
    ) -> QueryResult:
        """Open the record of a planned query."""
        watch = self._all.watch
        record = self._queries.plan(
            text, cancelled, user=self.principal.name, session_id=self.id, kind=kind, since=since, rights=rights
        )
        most = self._all.config.limits.result_bytes
        batches = watch.running(query.run(record), noted, record.query_id, rights.blamed)
        columns = getattr(query, "answer_columns", _no_columns)
        return QueryResult(query.schema, ResultBatches(batches, record, reader, most), record, columns)

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: CancelToken | None = None,
    ) -> int:
        """Run DDL, DML or SET once, or once for each row of parameters; return the rows affected or -1.

        `settings` hold for this call only. Setting `cancelled` stops a statement that has not taken effect yet.

        Raises:
            FlightLLMError: the statement is wrong. Rows of parameters before the failing row stay applied, except for
                INSERT … VALUES without AI calls: this INSERT adds all rows or no row.
        """
        return _sum_of([done.rows for done in self._updates(sql, parameters, settings, cancelled)])

    def update_returning(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: CancelToken | None = None,
    ) -> Returned:
        """Run a change with RETURNING as `update` does; also return the rows of RETURNING, as a table in memory.

        Raises:
            FlightLLMError: see `update`.
        """
        done = list(self._updates(sql, parameters, settings, cancelled))
        tables = [one.returned for one in done if one.returned is not None]
        if not tables:
            return Returned(
                _sum_of([one.rows for one in done]),
                self._described(*self._given(sql, settings)).schema.empty_table(),
            )
        names = tables[0].column_names
        plain = [table.rename_columns([str(index) for index in range(len(names))]) for table in tables]
        together = plain[0] if len(plain) == 1 else pa.concat_tables(plain, promote_options="permissive")
        return Returned(_sum_of([one.rows for one in done]), together.rename_columns(names))

    def _updates(
        self, sql: str, parameters: pa.Table | None, settings: Mapping[str, str], cancelled: CancelToken | None
    ) -> Iterator[Changed]:
        sql, chosen = self._given(sql, settings)
        if (assigned := self._reader.assignment(sql, chosen)) is not None:
            self._assign(assigned, parameters, settings, cancelled)
            yield Changed(-1)
            return
        try:
            read, names, _ = self._reader.rewritten(sql, chosen, None if parameters is None else parameters.schema)
        except FlightLLMError as error:
            error.args = (without_its_secrets(str(error), sql),)
            self._began(sql, cancelled, "update").finish("failed", error=str(error))
            raise
        if parameters is None:
            if chosen.dialect == WITH_VARIABLES:
                self._reader.variables.check_set(read)
            yield self._update(sql, bind(read, None), names, chosen, cancelled)
            return
        texts = bound_texts(read, parameters, self._services.functions)
        for (text, more), row in zip(texts, each_row(parameters), strict=False):  # one text can have many rows
            yield self._update(sql, text, names, chosen, cancelled, more, row)

    def _update(
        self,
        sql: str,
        bound: ParsedText,
        names: Callable[[], OutputNames],
        settings: Settings,
        cancelled: CancelToken | None,
        more: Iterable[ParsedText] | None = None,
        row: pa.RecordBatch | None = None,
    ) -> Changed:
        if bound.sql != sql:
            check_bound(bound, self._all.config.limits)
        statement = replace(classify(bound), names=names)
        try:
            _check_writable(statement, settings)
        except FlightLLMError as error:
            self._began(sql, cancelled, statement.kind).finish("failed", error=str(error))
            raise
        if statement.kind in _OF_SESSION:
            self._change_session(statement)
            return Changed(-1)
        if self._defers(statement, settings):
            handle = handle_of(statement, self._services, settings, self._deferring(sql, settings, row))
            if handle is not None:
                record = self._began(sql, cancelled, statement.kind)
                with closing(ResultBatches(handle.run(record), record, self._reading(bound, self.rights))) as rows:
                    list(rows)
                self._transactions.changed()
                return Changed(-1)
        record = self._began(sql, cancelled, statement.kind)
        try:
            noted = self._all.watch.changing(bound.sql, record.query_id, self.rights.blamed)
            stop = record.cancelled.is_set
            with (
                self._statement(),
                record.bound(),
                noted,
                _stopped_with(record),
                self._reading(bound, self.rights, stop),
            ):
                changed = change(statement, record, lambda: self._services, settings.for_storing(), more)
        except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
            mapped = mapped_error(error)
            if isinstance(mapped, CancelledError) and record.reason is not None:
                mapped = record.reason
            self._reader.explain(mapped, sql, settings.dialect)
            if isinstance(mapped, FlightLLMError):
                mapped.args = (without_its_secrets(str(mapped), sql),)
            record.finish("cancelled" if isinstance(mapped, CancelledError) else "failed", error=str(mapped))
            raise mapped from error
        record.finish("done", rows=max(changed.rows, 0))
        self._transactions.changed()
        return changed

    def _assign(
        self,
        assigned: Assignment,
        parameters: pa.Table | None,
        settings: Mapping[str, str],
        cancelled: CancelToken | None,
    ) -> None:
        """Set or forget variables; a query computes their values from at most one row of parameters."""
        variables = self._reader.variables
        if not assigned.query:
            variables.drop(assigned.names)
            return
        row = None if parameters is None else next(iter(parameters.combine_chunks().to_batches()), None)
        found = self.execute(assigned.query, row, settings, cancelled=cancelled)
        table = pa.Table.from_batches(list(found.batches), found.schema)
        values = values_of(table, assigned.names)
        if assigned.types is None:
            variables.assign(assigned.names, values)
        else:
            self._reader.script_variables.assign(assigned, values)

    def _change_session(self, statement: Statement) -> None:
        match statement.kind:
            case "set":
                self._settings = self._settings.with_values({statement.key or "": statement.value or ""})
            case "reset":
                self._settings = self._settings.reset(statement.key or "")
            case "search_path":
                self._place.go_to(statement.columns)
            case "transaction":
                self._transactions.run(statement.key or "")

    def _began(self, text: str, cancelled: CancelToken | None, kind: str) -> QueryRecord:
        """Open the record of a statement that changes something."""
        return self._queries.start(
            text, cancelled, user=self.principal.name, session_id=self.id, kind=kind, rights=self.rights
        )

    def addressed(self, table: str, db_schema: str = "") -> TableInfo:
        """Return the table to which an upload with these names adds rows.

        Raises:
            NotFoundError: there is no such table.
        """
        name = self._place.uploaded(table, db_schema, made=False, temporary=False, added=True)
        return self.catalog.table(name)

    def ingest(
        self,
        table: str,
        reader: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: IngestMode,
        *,
        db_schema: str = "",
        temporary: bool = False,
        cancelled: CancelToken | None = None,
    ) -> int:
        """Store uploaded batches in a table and return their number of rows.

        Without `db_schema` the table is in the session's schema, or is temporary. Until the rows are stored,
        setting `cancelled` can stop the upload, which then stores nothing.

        Raises:
            FlightLLMError: the rows cannot be stored, or the session is read-only.
        """
        self.check_writable()
        made, added = mode == "create", mode == "append"
        name = self._place.uploaded(table, db_schema, made=made, temporary=temporary, added=added)
        text = f"INGEST INTO {name.display}"
        record = self._began(text, cancelled, "ingest")
        try:
            upload = f"{text}, {sha256(schema.serialize()).hexdigest()}"
            noted = self._all.watch.changing(upload, record.query_id, self.rights.blamed)
            with self._statement(), record.bound(), noted, _stopped_with(record):
                rows = self._services.catalog.ingest(name, schema, _while_wanted(reader, record), mode)
        except Exception as error:
            left = isinstance(error, CancelledError | pa.ArrowCancelled)
            said = str(error) if isinstance(error, FlightLLMError) else "internal error"
            record.finish("cancelled" if left else "failed", error=None if left else said)
            raise
        record.finish("done", rows=rows)
        self._transactions.changed()
        return rows

    def check_writable(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """Check that the session can take an upload; `settings` hold for this call only.

        Raises:
            PermissionDeniedError: the session, or this call, is read-only.
        """
        if self._settings.with_values(settings).read_only:
            raise _read_only("an upload")

    def begin(self) -> bytes:
        """Begin a transaction and return its id; every statement still commits by itself."""
        return self._transactions.begin()

    def check_transaction(self, transaction: bytes) -> None:
        """Raise `NotFoundError` if no open transaction has this id."""
        self._transactions.check(transaction)

    def end(self, transaction: bytes, *, commit: bool) -> None:
        """End a transaction.

        Raises:
            NotFoundError: no open transaction has this id.
            UnsupportedError: `commit` is false, and a statement changed something since the transaction began.
        """
        self._transactions.end(transaction, commit=commit)

    def table_exists(self, table: str, db_schema: str, *, temporary: bool) -> bool:
        """Return whether an upload that replaces a table would find a table that the user can see."""
        name = self._place.uploaded(table, db_schema, made=False, temporary=temporary)
        return any(info.name == name for info in self.catalog.tables())

    def set_option(self, key: str, value: str) -> None:
        """Change a setting of this session.

        Raises:
            InvalidInputError: there is no such setting, or its value is not allowed.
        """
        if key in self._place.options():
            self._place.set_option(key, value)
        else:
            self._settings.check_unlocked(key)
            self._settings = self._settings.with_values({key: value})

    def reset_option(self, key: str) -> None:
        """Reset a setting of this session to its default.

        Raises:
            InvalidInputError: there is no such setting.
        """
        if key in self._place.options():
            self._place.reset()
        else:
            self._settings.check_unlocked(key)
            self._settings = self._settings.reset(key)

    def get_options(self) -> dict[str, str]:
        """Return every setting, and the default catalog and schema of unqualified names."""
        return {**self._place.options(), **self._settings.as_text()}

    def kept(self) -> tuple[Settings, tuple[str, ...]]:
        """Return the settings and the search path, to go back to with `go_back`."""
        return self._settings, self._place.path

    def go_back(self, kept: tuple[Settings, tuple[str, ...]]) -> None:
        """Take earlier settings and an earlier search path again; a read-only session stays read-only."""
        settings, path = kept
        if self._settings.read_only and not settings.read_only:
            settings = settings.with_values({"read_only": "on"})
        self._settings = settings
        self._place.restore(path)

    def state(self) -> SessionState | None:
        """Return what another process needs to continue this session.

        Return None if no other process can: the session has an open transaction, temporary tables or variables.
        """
        variables = self._reader.variables.state or self._reader.script_variables.state
        if self._transactions.is_open or self._place.temporary or variables:
            return None
        return SessionState(self._settings, self._place.path, self._record.facts())

    def restore(self, state: SessionState) -> None:
        """Continue a session of another process."""
        self._settings = state.settings
        self._place.restore(state.path)
        self._record.restore(state.facts)

    def close(self) -> None:
        """Close the session and drop its temporary tables; running queries go on until their clients stop them."""
        self._place.close()
        self._sessions.close(self._record)


def _check_writable(statement: Statement, settings: Settings) -> None:
    """Check that a read-only session can run a change.

    Raises:
        PermissionDeniedError: the session is read-only, and the statement changes more than the session.
    """
    if statement.kind in {"set", "reset"}:
        settings.check_unlocked(statement.key or "")
    if settings.read_only and statement.kind not in _OF_SESSION:
        raise _read_only(statement.kind.replace("_", " ").upper())


def _read_only(what: str) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"flightllm.read_only is on, and {what} would change something: ask for the change in a session that can write"
    )


def _stopped_with(record: QueryRecord) -> AbstractContextManager[None]:
    """Let long steps of a change end with its record, and still with the call that runs it."""
    return stopped_if(lambda: record.cancelled.is_set() or stopped())


def _mentions(text: ParsedText, rights: Rights) -> frozenset[str]:
    """Return the words of all tables a statement can read, with those in row filters and masks."""
    return text.mentions.union(*(mentions(policy.expression) for policy in rights.policies))


def _sum_of(affected: list[int]) -> int:
    """Return how many rows several changes affect, or -1 if the count of one change is unknown."""
    return -1 if any(rows < 0 for rows in affected) else sum(affected)


def _shown_plan(plan: bytes) -> str:
    """Return the text that `system.queries` shows for a Substrait plan."""
    return f"Substrait plan of {len(plan):,} bytes"


def _told_apart(plan: bytes) -> str:
    """Return a text that identifies a Substrait plan after a crash of the server."""
    return f"{_shown_plan(plan)}, {sha256(plan).hexdigest()}"


def _while_wanted(batches: Iterable[pa.RecordBatch], record: QueryRecord) -> Batches:
    """Yield batches until their statement is cancelled, or to the end; then raise the reason if it was cancelled."""
    for batch in batches:
        if record.stopped:
            break
        yield batch
    if record.stopped:
        raise record.reason or CancelledError("the statement was cancelled")
