"""The sessions of a database: what the protocol layer, the command line and tests call."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType

import pyarrow as pa
import structlog

from flightllm.access.principal import Principal
from flightllm.access.rights import Rights
from flightllm.catalog import IngestMode
from flightllm.catalog.errors import mapped_error, panics_mapped
from flightllm.catalog.scoped import Scopes
from flightllm.changes import bound_texts, change, check
from flightllm.client_plans import plan_substrait
from flightllm.describing import Description, describe
from flightllm.error_places import explain_error
from flightllm.errors import CancelledError, FlightLLMError, SqlError, UnsupportedError
from flightllm.limits import TimeLimit
from flightllm.operators.relational import Batches
from flightllm.own_queries import EmptyQuery, ExplainQuery, ShowQuery
from flightllm.query import Query, plan
from flightllm.records import QueryRecord, Stop
from flightllm.result_batches import ResultBatches
from flightllm.services import Services
from flightllm.session_log import SessionLog
from flightllm.settings import Settings
from flightllm.sql.classify import classify
from flightllm.sql.guard import check_bound, check_sql
from flightllm.sql.names import DEFAULT_SCHEMA, TableName
from flightllm.sql.parameters import bind
from flightllm.sql.statement import Statement
from flightllm.system import QueryLog

_log = structlog.get_logger(__name__)
_EMPTY = pa.schema([])


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query that runs as `batches` is pulled; closing `batches`, or `query.cancel()`, stops it."""

    schema: pa.Schema
    batches: ResultBatches
    query: QueryRecord


class Session:
    """One client's settings and statements. Statements may run at the same time."""

    def __init__(
        self,
        services: Services,
        queries: QueryLog,
        sessions: SessionLog,
        scopes: Scopes,
        principal: Principal,
        peer: str,
    ) -> None:
        self.principal = principal
        self._all = services
        self._scopes = scopes
        self._queries = queries
        self._sessions = sessions
        self._settings = Settings()
        self._record = sessions.open(self._changed, principal.name, peer)
        self.id = self._record.session_id

    def _changed(self) -> dict[str, str]:
        return self._settings.changed()

    def time_limit(self, settings: Mapping[str, str]) -> TimeLimit:
        """Return how long a statement may run under the session's settings and `settings`.

        Raises:
            InvalidInputError: one of these is no setting, or cannot have this value.
        """
        chosen = self._settings.with_values(settings)
        return TimeLimit.of(self._all.config.limits.statement_seconds, chosen.timeout)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Count a statement, and bind to log events inside whose it is; DataFusion's panics come out as errors."""
        self._record.used()
        with structlog.contextvars.bound_contextvars(user=self.principal.name, session_id=self.id), panics_mapped():
            yield

    @property
    def rights(self) -> Rights:
        """Return what its user may do now."""
        return self._all.access.rights(self.principal)

    @property
    def _services(self) -> Services:
        """Return the server's services for one statement, the catalog as the session's user sees it now."""
        rights = self.rights
        return replace(self._all, catalog=self._scopes.of(rights), rights=rights)

    @contextmanager
    def _failures_noted(self, text: str) -> Iterator[None]:
        """Leave a record of a query that cannot be planned: what runs, and all that changes something, has one."""
        try:
            yield
        except Exception as error:
            self._explain(error, text)
            said = str(error) if isinstance(error, FlightLLMError) else "internal error"
            record = self._queries.plan(text, user=self.principal.name, session_id=self.id)
            record.finish("cancelled" if isinstance(error, CancelledError) else "failed", error=said)
            raise

    def _explain(self, error: Exception, sql: str) -> None:
        """Make an error speak of the statement as it was sent, and of the tables that its user may read.

        It stays as it is where its user is gone by now.
        """
        if not isinstance(error, SqlError):
            return
        with suppress(FlightLLMError):
            services = self._services
            catalog, rights = services.catalog, services.rights

            def tables() -> list[TableName]:
                return [*catalog.entries, *(info.name for info in catalog.store.system_tables())]

            def is_view(name: TableName) -> bool:
                entry = catalog.store.entries.get(name)
                return entry is not None and entry.kind == "view" and rights.may("SELECT", name, entry.owner)

            explain_error(error, sql, tables, is_view)

    def is_update(self, sql: str) -> bool:
        """Tell from the text alone whether a statement changes something and returns no rows.

        Raises:
            FlightLLMError: no kind of statement begins like this, or it is one that is not supported.
        """
        with self._failures_noted(sql):
            check_sql(sql, self._all.config.limits)
            return classify(sql).is_update

    def describe(self, sql: str, parameters: pa.RecordBatch | None = None) -> Description:
        """Plan a statement without running it, with a row of parameters or else values that fit in their place.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        with self._failures_noted(sql):
            return self._described(sql, parameters)

    def _described(self, sql: str, parameters: pa.RecordBatch | None = None) -> Description:
        check_sql(sql, self._all.config.limits)
        bound = sql if parameters is None else bind(sql, parameters)
        if bound != sql:
            check_bound(bound, self._all.config.limits)
        with panics_mapped(), self._all.watch.planning(bound, self.rights.blamed), self._all.catalog.reading():
            services = self._services

            def schema_of(statement: Statement) -> pa.Schema:
                if statement.is_update:
                    self._check(statement, services)
                    return _EMPTY
                return _plan(statement, services, self._settings).schema

            return describe(sql, services, schema_of, parameters)

    def _check(self, statement: Statement, services: Services) -> None:
        match statement.kind:
            case "set":
                self._settings.with_values({statement.key or "": statement.value or ""})
            case "reset":
                self._settings.reset(statement.key or "")
            case _:
                check(statement, services, self._settings)

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> QueryResult:
        """Plan a query with at most one row of parameters; it runs as its batches are pulled.

        Parameters without a row give no rows of what the query would return.

        `settings` hold for this call only.

        Raises:
            FlightLLMError: the query is wrong.
        """
        limits = self._all.config.limits
        with self._failures_noted(sql):
            check_sql(sql, limits)
            chosen = self._settings.with_values(settings)
            no_rows = parameters is not None and parameters.num_rows == 0
            bound = sql if no_rows else bind(sql, parameters)
            if bound != sql:
                check_bound(bound, limits)
            statement = classify(bound)
            if statement.is_update:
                kind = statement.kind.replace("_", " ").upper()
                raise UnsupportedError(f"{kind} returns no rows: send it as an update")
            if no_rows:
                return self._started(statement.kind, sql, bound, lambda: EmptyQuery(self._described(sql).schema))
            return self._started(statement.kind, sql, bound, lambda: _plan(statement, self._services, chosen))

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
        """Plan a serialized Substrait plan; it runs as its batches are pulled.

        Raises:
            FlightLLMError: the plan is wrong.
        """
        text = _shown_plan(plan)
        with self._failures_noted(text):
            chosen = self._settings.with_values(settings)
            return self._started("query", text, _told_apart(plan), lambda: plan_substrait(plan, self._services, chosen))

    def _started(self, kind: str, text: str, noted: str, plan: Callable[[], Query]) -> QueryResult:
        """Plan a query; `noted` tells it from others should the server die of it."""
        since, watch, rights = time.time_ns(), self._all.watch, self.rights
        with self._statement(), watch.planning(noted, rights.blamed):
            reader = self._all.catalog.reading()
            query = plan()
        record = self._queries.plan(
            text, user=self.principal.name, session_id=self.id, kind=kind, since=since, rights=rights
        )
        most = self._all.config.limits.result_bytes
        batches = watch.running(query.run(record), noted, record.query_id, rights.blamed)
        return QueryResult(query.schema, ResultBatches(batches, record, reader, most), record)

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: Stop | None = None,
    ) -> int:
        """Run DDL, DML or SET once, or once for each row of parameters; return the rows affected or -1.

        `settings` hold for this call only. Setting `cancelled` stops a statement that has not taken effect yet.

        Raises:
            FlightLLMError: the statement is wrong; rows of parameters before the failing one may have been applied,
                except by INSERT … VALUES without AI calls, which adds all rows or none.
        """
        check_sql(sql, self._all.config.limits)
        chosen = self._settings.with_values(settings)
        if parameters is None:
            return self._update(sql, bind(sql, None), chosen, cancelled)
        total = 0
        for text, more in bound_texts(sql, parameters, self._all.functions):
            affected = self._update(sql, text, chosen, cancelled, more)
            total = -1 if affected < 0 else total + affected
        return total

    def _update(
        self,
        sql: str,
        bound: str,
        settings: Settings,
        cancelled: Stop | None,
        more: Iterable[str] | None = None,
    ) -> int:
        if bound != sql:
            check_bound(bound, self._all.config.limits)
        statement = classify(bound)
        match statement.kind:
            case "set":
                self._settings = self._settings.with_values({statement.key or "": statement.value or ""})
                return -1
            case "reset":
                self._settings = self._settings.reset(statement.key or "")
                return -1
        record = self._began(sql, cancelled, statement.kind)
        try:
            noted = self._all.watch.changing(bound, record.query_id, self.rights.blamed)
            with self._statement(), record.bound(), noted, self._all.catalog.reading():
                affected = change(statement, record, self._services, settings.for_storing(), more)
        except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
            mapped = mapped_error(error)
            if isinstance(mapped, CancelledError) and record.reason is not None:
                mapped = record.reason
            self._explain(mapped, sql)
            record.finish("cancelled" if isinstance(mapped, CancelledError) else "failed", error=str(mapped))
            raise mapped from error
        record.finish("done", rows=max(affected, 0))
        return affected

    def _began(self, text: str, cancelled: Stop | None, kind: str) -> QueryRecord:
        """Open the record of a statement that changes something."""
        return self._queries.start(
            text, cancelled, user=self.principal.name, session_id=self.id, kind=kind, rights=self.rights
        )

    def ingest(
        self,
        table: str,
        reader: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: IngestMode,
        *,
        db_schema: str = DEFAULT_SCHEMA,
        temporary: bool = False,
        cancelled: Stop | None = None,
    ) -> int:
        """Store uploaded batches in a table and return their number of rows.

        Tables are shared by all sessions, so a temporary one is refused. Setting `cancelled` stops the upload as long
        as batches come; nothing of it is stored then.
        """
        if temporary:
            raise UnsupportedError("temporary tables are not supported: ingest without `temporary`")
        name = TableName(db_schema, table)
        text = f"INGEST INTO {name.display}"
        record = self._began(text, cancelled, "ingest")
        try:
            upload = f"{text}, {sha256(schema.serialize()).hexdigest()}"
            noted = self._all.watch.changing(upload, record.query_id, self.rights.blamed)
            with self._statement(), record.bound(), noted:
                rows = self._services.catalog.ingest(name, schema, _while_wanted(reader, record), mode)
        except Exception as error:
            left = isinstance(error, CancelledError | pa.ArrowCancelled)
            said = str(error) if isinstance(error, FlightLLMError) else "internal error"
            record.finish("cancelled" if left else "failed", error=None if left else said)
            raise
        record.finish("done", rows=rows)
        return rows

    def set_option(self, key: str, value: str) -> None:
        """Change a setting of this session.

        Raises:
            InvalidInputError: there is no such setting, or it cannot have this value.
        """
        self._settings = self._settings.with_values({key: value})

    def reset_option(self, key: str) -> None:
        """Put a setting of this session back to its default.

        Raises:
            InvalidInputError: there is no such setting.
        """
        self._settings = self._settings.reset(key)

    def get_options(self) -> dict[str, str]:
        """Return every setting."""
        return self._settings.as_text()

    def close(self) -> None:
        """End the session; its running queries go on until their clients stop them."""
        self._sessions.close(self._record)


def _plan(statement: Statement, services: Services, settings: Settings) -> Query:
    if statement.kind == "show":
        return ShowQuery(settings.show(statement.key or "all"))
    query = plan(statement.query or statement.text, services, settings)
    return ExplainQuery(query, statement) if statement.kind == "explain" else query


def _shown_plan(plan: bytes) -> str:
    """Return what stands for a Substrait plan in `system.queries`."""
    return f"Substrait plan of {len(plan):,} bytes"


def _told_apart(plan: bytes) -> str:
    """Return what tells a Substrait plan from others, should the server die of it."""
    return f"{_shown_plan(plan)}, {sha256(plan).hexdigest()}"


def _while_wanted(batches: Iterable[pa.RecordBatch], record: QueryRecord) -> Batches:
    """Yield batches until somebody asks their statement to stop; raises then, at their end at the latest."""
    for batch in batches:
        if record.stopped:
            break
        yield batch
    if record.stopped:
        raise record.reason or CancelledError("the statement was cancelled")
