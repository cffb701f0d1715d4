"""A database and its sessions: what the protocol layer, the command line and tests call."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, product
from types import MappingProxyType

import pyarrow as pa
import structlog

from flightllm.backends import Backends
from flightllm.catalog import Catalog, IngestMode
from flightllm.catalog.errors import mapped_error
from flightllm.changes import bound_texts, change
from flightllm.config import Config
from flightllm.errors import CancelledError, FlightLLMError, InternalError, SqlError, UnsupportedError
from flightllm.explaining import JSON_SCHEMA, TEXT_SCHEMA, ShownQuery, explain
from flightllm.functions import FunctionRegistry
from flightllm.llm import create_engine
from flightllm.llm.supervised import SupervisedEngine
from flightllm.operators.cache import AnswerCache
from flightllm.operators.flights import Flights
from flightllm.operators.relational import Batches, Loop
from flightllm.operators.workers import Workers
from flightllm.plan.cost import Costs, Prices
from flightllm.query import Query, plan
from flightllm.recovery.watch import Watch
from flightllm.services import Services
from flightllm.settings import Settings
from flightllm.sql.classify import classify
from flightllm.sql.guard import check_sql
from flightllm.sql.names import TableName
from flightllm.sql.parameters import bind, count_parameters
from flightllm.sql.statement import Statement
from flightllm.system import QueryLog, QueryRecord
from flightllm.system_tables import SystemTables
from flightllm.vector.store import VectorIndexes

_log = structlog.get_logger(__name__)
_EMPTY = pa.schema([])
_STAND_INS = (pa.nulls(1), pa.array(["text"]), pa.array([1]))
_MOST_TRIES = 40


@dataclass(frozen=True, slots=True)
class Description:
    """What planning says of a statement: result columns (none for an update) and one text field per parameter."""

    schema: pa.Schema
    is_update: bool
    parameters: pa.Schema


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A query that runs as `batches` is pulled; closing `batches`, or `query.cancel()`, stops it."""

    schema: pa.Schema
    batches: "ResultBatches"
    query: QueryRecord


class ResultBatches(Iterator[pa.RecordBatch]):
    """The rows of a query; keeps its record. One thread at a time pulls or closes."""

    def __init__(self, batches: Batches, record: QueryRecord) -> None:
        self._batches = batches
        self._record = record

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch; any failure comes out as one of our errors."""
        self._record.begin()
        try:
            batch = next(self._batches)
        except StopIteration:
            self._record.finish("done")
            self._report()
            raise
        except CancelledError:
            self._record.finish("cancelled")
            raise
        except FlightLLMError as error:
            self._record.finish("failed", error=str(error))
            raise
        except Exception as error:
            self._record.finish("failed", error="internal error")
            _log.exception("query failed", query_id=self._record.query_id)
            raise InternalError(f"internal error, query_id={self._record.query_id}: see the server's log") from error
        self._record.add_rows(batch.num_rows)
        return batch

    def close(self) -> None:
        """Stop the query if it still runs. Idempotent."""
        self._record.finish("cancelled")
        self._batches.close()

    def _report(self) -> None:
        row = self._record.row()
        if row["failed_rows"]:
            _log.warning("rows without an answer", query_id=self._record.query_id, failed_rows=row["failed_rows"])
        _log.info("query done", **{k: v for k, v in row.items() if k not in {"sql", "error", "started_at", "status"}})


class Database:
    """One server's tables, functions, engine and answers. Safe to use from several threads."""

    def __init__(self, services: Services, queries: QueryLog) -> None:
        self._services = services
        self.queries = queries
        self.catalog = services.catalog
        self.functions = services.functions
        self.engine = services.engine
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
        queries = QueryLog()
        path = config.cache.path or config.data_folder / "answers.sqlite"
        cache = AnswerCache(path if config.cache.enabled else None, config.cache.max_bytes)
        with ExitStack() as opened:
            opened.callback(cache.close)
            indexes = VectorIndexes(config.data_folder / "vectors")

            def revision(table: TableName) -> str:
                return catalog.revision(table)

            catalog = Catalog(config.limits, SystemTables(queries, cache, indexes, revision, config.embedding.model))
            for name, path in config.tables.items():
                catalog.register_file(name, path)
            costs = Costs(Prices.of(config.engine))
            backends = Backends(config.embedding, config.limits, indexes, cache)
            engine = SupervisedEngine(
                f"{config.engine.kind} ({config.engine.model})",
                partial(create_engine, config.engine),
                config.recovery,
                beside=restarted,
            )
            services = Services(
                config,
                catalog,
                functions,
                engine,
                cache,
                Flights(),
                Loop(),
                workers,
                costs,
                indexes,
                backends,
                watch=watch or Watch(),
            )
            opened.pop_all()
        return cls(services, queries)

    def session(self) -> "Session":
        """Open a session."""
        return Session(self._services, self.queries)

    def close(self) -> None:
        """Cancel what runs, keep the answers, release the engine. Idempotent."""
        for record in self.queries.running():
            record.cancel()
        self._services.cache.close()
        self._services.engine.close()
        self._services.backends.close()
        self._services.loop.close()


class Session:
    """One client's settings and statements. Statements may run at the same time."""

    def __init__(self, services: Services, queries: QueryLog) -> None:
        self._services = services
        self._queries = queries
        self._settings = Settings()

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
        count = count_parameters(sql)
        fields = pa.schema([pa.field(str(i), pa.string()) for i in range(count)])
        statement = classify(sql)
        if statement.is_update:
            return Description(_EMPTY, is_update=True, parameters=fields)
        with self._services.watch.planning(sql):
            return Description(self._plan_any(sql, fields.names).schema, is_update=False, parameters=fields)

    def _plan_any(self, sql: str, parameters: list[str]) -> Query:
        """Plan with NULL for each parameter, or where that cannot be, with a text or a number for some.

        An error that is the same whether all are NULL, texts or numbers is about something else and ends the search.
        """
        errors: list[SqlError] = []
        for values in islice(_stand_ins(len(parameters)), _MOST_TRIES):
            try:
                return self._plan(
                    classify(bind(sql, pa.RecordBatch.from_arrays(values, names=parameters))), self._settings
                )
            except SqlError as error:
                errors.append(error)
            if len(errors) == len(_STAND_INS) and len({str(error) for error in errors}) == 1:
                break
        raise errors[0]

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> QueryResult:
        """Plan a query with at most one row of parameters; it runs as its batches are pulled.

        `settings` hold for this call only.

        Raises:
            FlightLLMError: the query is wrong.
        """
        check_sql(sql, self._services.config.limits)
        chosen = self._settings.with_values(settings)
        bound, watch = bind(sql, parameters), self._services.watch
        statement = classify(bound)
        if statement.is_update:
            raise UnsupportedError(f"{statement.kind.replace('_', ' ').upper()} returns no rows: send it as an update")
        with watch.planning(bound):
            query = self._plan(statement, chosen)
        record = self._queries.plan(sql)
        batches = watch.running(query.run(record), bound, record.query_id)
        return QueryResult(query.schema, ResultBatches(batches, record), record)

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
        record = self._queries.start(sql, cancelled)
        try:
            with self._services.watch.changing(bound, record.query_id):
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
        temporary: bool = False,
    ) -> int:
        """Store uploaded batches in an in-memory table and return their number of rows.

        Tables are shared by all sessions, so a temporary one is refused.
        """
        if temporary:
            raise UnsupportedError("temporary tables are not supported: ingest without `temporary`")
        return self._services.catalog.ingest(table, schema, reader, mode)

    def set_option(self, key: str, value: str) -> None:
        """Change a setting of this session.

        Raises:
            InvalidInputError: there is no such setting, or it cannot have this value.
        """
        self._settings = self._settings.with_values({key: value})

    def get_options(self) -> dict[str, str]:
        """Return every setting."""
        return self._settings.as_text()

    def close(self) -> None:
        """End the session; its running queries go on until their clients stop them."""


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


def _stand_ins(count: int) -> Iterator[list[pa.Array]]:
    """Yield values for `count` parameters: all of one kind, then NULLs and texts, then any mixture; none twice."""
    kinds, tried = range(len(_STAND_INS)), set()
    uniform = ((kind,) * count for kind in kinds)
    for choice in chain(uniform, product(kinds[:2], repeat=count), product(kinds, repeat=count)):
        if choice not in tried:
            tried.add(choice)
            yield [_STAND_INS[kind] for kind in choice]


def _texts(lines: list[tuple[str, str]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([line[i] for line in lines], pa.string()) for i in range(2)], schema=schema
    )
