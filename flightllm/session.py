"""A database and its sessions: what the protocol layer, the command line and tests call."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType

import pyarrow as pa
import structlog

from flightllm.access.control import open_access
from flightllm.access.principal import LOCAL, Principal
from flightllm.access.tables import AccessTables
from flightllm.backends import Backends
from flightllm.catalog import Catalog, IngestMode
from flightllm.catalog.errors import mapped_error
from flightllm.catalog.scoped import Scopes
from flightllm.changes import bound_texts, change
from flightllm.client_plans import plan_substrait
from flightllm.config import Config
from flightllm.describing import Description, describe
from flightllm.engines import Engines
from flightllm.errors import CancelledError, FlightLLMError, UnsupportedError
from flightllm.explaining import JSON_SCHEMA, TEXT_SCHEMA, ShownQuery, explain
from flightllm.functions import FunctionRegistry
from flightllm.limits import TimeLimit
from flightllm.llm.supervised import supervised
from flightllm.object_tables import ObjectTables
from flightllm.objects import Objects
from flightllm.observe.tracing import create_spans
from flightllm.operators.cache import AnswerCache
from flightllm.operators.flights import Flights
from flightllm.operators.relational import Batches, Loop
from flightllm.operators.workers import Workers
from flightllm.query import Query, plan
from flightllm.recovery.watch import Watch
from flightllm.result_batches import ResultBatches
from flightllm.services import Services
from flightllm.session_log import SessionLog
from flightllm.settings import Settings
from flightllm.sql.classify import classify
from flightllm.sql.guard import check_sql
from flightllm.sql.names import DEFAULT_SCHEMA, TableName
from flightllm.sql.parameters import bind
from flightllm.sql.statement import Statement
from flightllm.system import QueryLog, QueryRecord
from flightllm.system_settings import SettingsTable
from flightllm.system_tables import CacheTable, IndexTable, SystemTables
from flightllm.vector.store import VectorIndexes

_log = structlog.get_logger(__name__)
_EMPTY = pa.schema([])


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query that runs as `batches` is pulled; closing `batches`, or `query.cancel()`, stops it."""

    schema: pa.Schema
    batches: ResultBatches
    query: QueryRecord


class Database:
    """One server's tables, functions, engine and answers. Safe to use from several threads."""

    def __init__(self, services: Services, queries: QueryLog, sessions: SessionLog | None = None) -> None:
        self._services = services
        self._scopes = Scopes(services.catalog)
        self.queries = queries
        self.sessions = sessions or SessionLog()
        self.catalog = services.catalog
        self.access = services.access
        self.functions = services.functions
        self.engine = services.engine
        self.cache = services.cache
        self.config = services.config
        self.quarantine = services.watch.quarantine

    @classmethod
    def open(cls, config: Config, *, watch: Watch | None = None, restarted: bool = False) -> "Database":
        """Load functions, tables and the engine.

        `watch` notes the statements in flight. After a restart the engine is opened beside: queries wait for it or
        fail, as `[recovery] on_engine_down` says.

        Raises:
            ConfigError: a table, function or engine setting is wrong.
            MissingExtraError: the engine's packages are not installed.
        """
        workers = Workers.of_process()  # before DataFusion starts its threads
        functions = FunctionRegistry.load(config.functions.folders)
        objects, sessions = Objects(config.data_folder), SessionLog()
        engines = Engines(config.engine, objects.engine, supervised(config.recovery, beside=restarted))
        queries = QueryLog(price=engines.price, spans=create_spans(config.tracing))
        path = config.cache.path or config.data_folder / "answers.sqlite"
        cache = AnswerCache(path if config.cache.enabled else None, config.cache.max_bytes)
        with ExitStack() as opened:
            opened.callback(cache.close)
            indexes = VectorIndexes(config.data_folder / "vectors")

            def revision(table: TableName) -> str:
                return catalog.revision(table)

            access = open_access(config)
            opened.callback(access.close)
            users = AccessTables(access.store)
            made = ObjectTables(objects, engines)
            built = IndexTable(indexes, revision, config.embedding.model)
            settings = SettingsTable(config, sessions)
            system = SystemTables(queries, CacheTable(cache), built, users, made, sessions, settings)
            catalog = Catalog(config.limits, system, config.data_folder / "tables", config.storage)
            opened.callback(catalog.close)
            for name, place in config.tables.items():
                catalog.register_file(name, place)
            backends = Backends(config.embedding, config.limits, indexes, cache)
            _ = engines.own  # loads it now, so that what is wrong with it is told
            services = Services(
                config,
                catalog,
                functions,
                objects,
                engines,
                cache,
                Flights(),
                Loop(),
                workers,
                indexes,
                access,
                access.rights(LOCAL),
                backends,
                watch or Watch(),
            )
            opened.pop_all()
        return cls(services, queries, sessions)

    def session(self, principal: Principal = LOCAL, *, peer: str = "") -> "Session":
        """Open a session of a user, who sees and may do what is granted to it at the time of each statement.

        `peer` is the client's address.
        """
        return Session(self._services, self.queries, self.sessions, self._scopes, principal, peer)

    def catalog_of(self, principal: Principal) -> Catalog:
        """Return the catalog as a user sees it now."""
        return self._scopes.of(self.access.rights(principal))

    @property
    def engine_up(self) -> bool:
        """Tell whether the engine answers, as far as is known."""
        return self._services.engines.own.health.up and bool(getattr(self.engine, "alive", True))

    def close(self) -> None:
        """Cancel what runs, keep the answers, release the engine. Idempotent."""
        for record in self.queries.running():
            record.cancel()
        self._services.cache.close()
        self._services.engines.close()
        self._services.backends.close()
        self._services.loop.close()
        self.access.close()
        self.catalog.close()
        self.queries.close()


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
        return TimeLimit.of(self._services.config.limits.statement_seconds, chosen.timeout)

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Count a statement, and bind to log events inside whose it is."""
        self._record.used()
        with structlog.contextvars.bound_contextvars(user=self.principal.name, session_id=self.id):
            yield

    @property
    def _services(self) -> Services:
        """Return the server's services, the catalog as the session's user sees it now."""
        rights = self._all.access.rights(self.principal)
        return replace(self._all, catalog=self._scopes.of(rights), rights=rights)

    def is_update(self, sql: str) -> bool:
        """Tell from the text alone whether a statement changes something and returns no rows.

        Raises:
            FlightLLMError: no kind of statement begins like this, or it is one that is not supported.
        """
        check_sql(sql, self._services.config.limits)
        return classify(sql).is_update

    def describe(self, sql: str) -> Description:
        """Plan a statement without running it; values that fit stand in for its parameters.

        Raises:
            FlightLLMError: the statement is wrong.
        """
        check_sql(sql, self._services.config.limits)
        services = self._services
        with services.watch.planning(sql), services.catalog.reading():
            return describe(sql, services, lambda statement: self._plan(statement, self._settings).schema)

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> QueryResult:
        """Plan a query with at most one row of parameters; it runs as its batches are pulled.

        `settings` hold for this call only.

        Raises:
            FlightLLMError: the query is wrong.
        """
        limits = self._services.config.limits
        check_sql(sql, limits)
        chosen = self._settings.with_values(settings)
        bound = bind(sql, parameters)
        statement = classify(bound)
        if statement.is_update:
            raise UnsupportedError(f"{statement.kind.replace('_', ' ').upper()} returns no rows: send it as an update")
        return self._started(statement.kind, sql, bound, lambda: self._plan(statement, chosen))

    def describe_plan(self, plan: bytes) -> Description:
        """Plan a serialized Substrait plan without running it.

        Raises:
            FlightLLMError: the plan is wrong.
        """
        query = plan_substrait(plan, self._services, self._settings)
        return Description(query.schema, is_update=False, parameters=_EMPTY)

    def execute_plan(self, plan: bytes, settings: Mapping[str, str] = MappingProxyType({})) -> QueryResult:
        """Plan a serialized Substrait plan; it runs as its batches are pulled.

        Raises:
            FlightLLMError: the plan is wrong.
        """
        chosen = self._settings.with_values(settings)
        text = f"Substrait plan of {len(plan):,} bytes"
        noted = f"{text}, {sha256(plan).hexdigest()}"
        return self._started("query", text, noted, lambda: plan_substrait(plan, self._services, chosen))

    def _started(self, kind: str, text: str, noted: str, plan: Callable[[], Query]) -> QueryResult:
        """Plan a query; `noted` tells it from others should the server die of it."""
        since, watch = time.time_ns(), self._all.watch
        with self._statement(), watch.planning(noted):
            reader = self._services.catalog.reading()
            query = plan()
        record = self._queries.plan(text, user=self.principal.name, session_id=self.id, kind=kind, since=since)
        most = self._services.config.limits.result_bytes
        batches = watch.running(query.run(record), noted, record.query_id)
        return QueryResult(query.schema, ResultBatches(batches, record, reader, most), record)

    def _plan(self, statement: Statement, settings: Settings) -> Query:
        if statement.kind == "show":
            return _Shown(settings.show(statement.key or "all"))
        query = plan(statement.query or statement.text, self._services, settings)
        return _Explained(query, statement) if statement.kind == "explain" else query

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: threading.Event | None = None,
    ) -> int:
        """Run DDL, DML or SET once, or once for each row of parameters; return the rows affected or -1.

        `settings` hold for this call only. Setting `cancelled` stops a statement that has not taken effect yet.

        Raises:
            FlightLLMError: the statement is wrong; rows of parameters before the failing one may have been applied.
        """
        check_sql(sql, self._services.config.limits)
        chosen = self._settings.with_values(settings)
        if parameters is None:
            return self._update(sql, bind(sql, None), chosen, cancelled)
        total = 0
        for text in bound_texts(sql, parameters, self._services.functions):
            affected = self._update(sql, text, chosen, cancelled)
            total = -1 if affected < 0 else total + affected
        return total

    def _update(self, sql: str, bound: str, settings: Settings, cancelled: threading.Event | None) -> int:
        statement = classify(bound)
        match statement.kind:
            case "set":
                self._settings = self._settings.with_values({statement.key or "": statement.value or ""})
                return -1
            case "reset":
                self._settings = self._settings.reset(statement.key or "")
                return -1
            case "transaction":
                raise UnsupportedError("transactions are not supported: every statement takes effect by itself")
        record = self._queries.start(sql, cancelled, user=self.principal.name, session_id=self.id, kind=statement.kind)
        try:
            noted = self._all.watch.changing(bound, record.query_id)
            with self._statement(), record.bound(), noted, self._services.catalog.reading():
                affected = change(statement, record, self._services, settings)
        except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
            mapped = mapped_error(error)
            record.finish("cancelled" if isinstance(mapped, CancelledError) else "failed", error=str(mapped))
            raise mapped from error
        record.finish("done", rows=max(affected, 0))
        return affected

    def ingest(
        self,
        table: str,
        reader: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: IngestMode,
        *,
        db_schema: str = DEFAULT_SCHEMA,
        temporary: bool = False,
    ) -> int:
        """Store uploaded batches in a table and return their number of rows.

        Tables are shared by all sessions, so a temporary one is refused.
        """
        if temporary:
            raise UnsupportedError("temporary tables are not supported: ingest without `temporary`")
        name = TableName(db_schema, table)
        text = f"INGEST INTO {name.display}"
        record = self._queries.start(text, user=self.principal.name, session_id=self.id, kind="ingest")
        try:
            with self._statement(), record.bound():
                rows = self._services.catalog.ingest(name, schema, reader, mode)
        except Exception as error:
            record.finish("failed", error=str(error) if isinstance(error, FlightLLMError) else "internal error")
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


class _Explained:
    """EXPLAIN as a query of its own."""

    def __init__(self, query: ShownQuery, statement: Statement) -> None:
        self._query = query
        self._analyze = statement.analyze
        self._json = statement.format == "json"
        self.schema = JSON_SCHEMA if self._json else TEXT_SCHEMA

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per title and text, or one with a JSON document."""
        yield explain(self._query, record, analyze=self._analyze, as_json=self._json)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan being explained."""
        return self._query.explain()


class _Shown:
    """SHOW of settings as a query of its own."""

    schema = pa.schema([pa.field("name", pa.string()), pa.field("value", pa.string())])

    def __init__(self, settings: list[tuple[str, str]]) -> None:
        self._settings = settings

    def run(self, record: QueryRecord) -> Batches:
        """Yield one row per setting."""
        del record
        yield _texts(self._settings, self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the settings."""
        return self._settings


def _texts(lines: list[tuple[str, str]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([line[i] for line in lines], pa.string()) for i in range(2)], schema=schema
    )
