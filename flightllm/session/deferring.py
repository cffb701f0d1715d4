"""Statements of sessions with `delivery = 'batch'`: their handles, and the sessions in which their passes run."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow as pa

from flightllm.catalog.reading import named_in
from flightllm.common.principal import Principal
from flightllm.config.session_settings import Settings
from flightllm.ddl.dispatch import check
from flightllm.deferred.collector import Collector, Spending
from flightllm.deferred.handle import HandleQuery, asks_models, check_deferrable
from flightllm.errors import CancelledError, UnsupportedError
from flightllm.execution.context import Services
from flightllm.execution.deferral import DeferredStatement
from flightllm.execution.planning import plan
from flightllm.execution.query import Query
from flightllm.execution.result import ResultBatches
from flightllm.execution.utility import ExplainQuery
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import CancelToken, QueryRecord
from flightllm.operators.in_flight import InFlightRequests
from flightllm.session.changing_values import changing_call
from flightllm.sql.statement import Statement
from flightllm.storage.change_ids import marked

if TYPE_CHECKING:
    from flightllm.execution.accounting import AskingQuery

_NOW = "SET flightllm.delivery = 'immediate'"
_CHANGES = ("insert", "create_table_as")


def is_deferred_change(statement: Statement, services: Services) -> bool:
    """Return whether a change waits for a batch endpoint, and so returns a handle: it stores rows of AI calls.

    Raises:
        UnsupportedError: the statement changes rows by AI calls in a way that cannot wait.
    """
    if not statement.is_update or not services.functions.may_be_in(statement.text):
        return False
    if statement.kind in _CHANGES and statement.query is not None and statement.change is None:
        return True
    if statement.kind in {"insert", "update", "delete", "merge"}:
        kind = statement.kind.upper()
        raise UnsupportedError(
            f"flightllm.delivery is 'batch', and {kind} cannot wait for it: {_NOW}, or keep the answers by"
            " CREATE TABLE … AS SELECT first"
        )
    return False


def handle_of(
    statement: Statement, services: Services, settings: Settings, deferred: Callable[[Statement], DeferredStatement]
) -> Query | None:
    """Return the query that keeps a change and returns its handle; None if the change asks no model.

    Raises:
        FlightLLMError: the statement is wrong, or cannot wait.
    """
    check(statement, services, settings)
    query = query_of(statement, services, settings)
    if not asks_models(query):
        return None
    check_deferrable(query, settings)
    _check_repeatable(statement, services)
    return HandleQuery(cast("AskingQuery", query), deferred(statement), services)


def query_of(statement: Statement, services: Services, settings: Settings) -> Query:
    """Return the query of a change.

    Raises:
        FlightLLMError: the query is wrong.
    """
    return plan(statement.parsed_query, services, settings, names=statement.names())


def waiting(
    query: Query,
    statement: Statement,
    services: Services,
    settings: Settings,
    deferred: Callable[[Statement], DeferredStatement],
) -> Query:
    """Return the query that keeps a SELECT and returns its handle; the query itself if it does not wait.

    Raises:
        UnsupportedError: the query cannot wait.
    """
    if isinstance(query, ExplainQuery) and asks_models(query.runs):
        raise UnsupportedError(
            f"flightllm.delivery is 'batch', and EXPLAIN ANALYZE runs the statement at once: {_NOW}, or write EXPLAIN"
        )
    if statement.kind != "query" or not asks_models(query):
        return query
    check_deferrable(query, settings)
    _check_repeatable(statement, services)
    return HandleQuery(cast("AskingQuery", query), deferred(statement), services)


def _check_repeatable(statement: Statement, services: Services) -> None:
    """Check that each round of a statement has the same prompts: other prompts are bought in each round, without end.

    Raises:
        UnsupportedError: the statement or a view calls a function whose value changes from run to run.
    """
    name = changing_call(statement.whole, named_in(statement.mentions, services.catalog.store.entries))
    if name is not None:
        raise UnsupportedError(
            f"flightllm.delivery is 'batch', but {name} has another value in each round: write the value itself, or"
            f" store the rows first by CREATE TABLE … AS SELECT; or {_NOW}"
        )


def row_of(parameters: pa.RecordBatch | pa.Table | None) -> bytes | None:
    """Return the parameters of a statement as an Arrow stream.

    Raises:
        UnsupportedError: there are several rows, each of which would be a statement of its own.
    """
    if parameters is None:
        return None
    if parameters.num_rows != 1:
        raise UnsupportedError(f"flightllm.delivery is 'batch', which takes one row of parameters at a time; or {_NOW}")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, parameters.schema) as writer:
        writer.write(parameters)
    written: bytes = sink.getvalue().to_pybytes()
    return written


class PassResult(Protocol):
    """The part of a running query that a pass needs."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""

    @property
    def batches(self) -> ResultBatches:
        """Return the rows."""


class PassSession(Protocol):
    """The part of a session that a pass needs; see `Session`."""

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, cancelled: CancelToken | None = None
    ) -> PassResult:
        """Run a query."""

    def update(self, sql: str, parameters: pa.Table | None = None, *, cancelled: CancelToken | None = None) -> int:
        """Run a change."""

    def execute_query_of(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, cancelled: CancelToken | None = None
    ) -> PassResult:
        """Run the query of a change, and change nothing."""

    def close(self) -> None:
        """Close the session."""


class PassLog(QueryLog):
    """The records of passes, which end without their rows by design: they leave no log events."""

    def _end(self, record: QueryRecord) -> None:
        self._ended.append(record)


class PassRunner:
    """Runs the passes of deferred statements, each in a session of its own."""

    def __init__(self, services: Services, session: Callable[[Services, DeferredStatement], PassSession]) -> None:
        self._services = services
        self._session = session

    def run(self, statement: DeferredStatement, collector: Collector, rows: Path, mark: str, stop: CancelToken) -> int:
        """Run a statement; see `Runner.run`."""
        services = replace(self._services, collecting=collector, in_flight=InFlightRequests())
        session = self._session(services, statement)
        try:
            parameters = _table(statement.parameters)
            if statement.is_update and not collector.keeping:
                with marked(mark):
                    return session.update(statement.sql, parameters, cancelled=stop)
            row = None if parameters is None else parameters.combine_chunks().to_batches()[0]
            if statement.is_update:  # the change itself can be impossible by now: its table can be gone
                with closing(session.execute_query_of(statement.sql, row, cancelled=stop).batches) as batches:
                    return sum(batch.num_rows for batch in batches)
            return _written(session, statement.sql, row, rows, stop)
        finally:
            session.close()

    def took_effect(self, mark: str) -> bool:
        """Return whether a change with this mark is in the catalog."""
        return self._services.catalog.store.has_mark(mark)

    def spending(self, principal: Principal) -> Spending | None:
        """Return what a user spends in a day; see `Runner.spending`."""
        return self._services.access.ledger(principal)


def _written(session: PassSession, sql: str, parameters: pa.RecordBatch | None, path: Path, stop: CancelToken) -> int:
    """Write the rows of a query into a file, which appears once it is whole; return their number."""
    result = session.execute(sql, parameters, cancelled=stop)
    unfinished, count = path.with_suffix(".part"), 0
    try:
        with open(unfinished, "wb", opener=_private) as file:
            with pa.ipc.new_file(file, result.schema) as writer:
                for batch in result.batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
        if stop.is_set():
            raise CancelledError("the deferred statement was cancelled")
        unfinished.replace(path)
    finally:
        result.batches.close()
        unfinished.unlink(missing_ok=True)
    return count


def _private(path: str, flags: int) -> int:
    """Open a file that only this server's account can read."""
    return os.open(path, flags, 0o600)


def _table(parameters: bytes | None) -> pa.Table | None:
    return None if parameters is None else pa.ipc.open_stream(parameters).read_all()


def kept_settings(settings: Settings) -> Mapping[str, str]:
    """Return the settings of a statement that a later pass needs."""
    return {name: value for name, value in settings.changed().items() if name not in {"delivery", "endpoints"}}
