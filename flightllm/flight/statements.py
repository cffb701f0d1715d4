"""Statements between two calls of a client: prepared, or planned and waiting to be fetched."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from flightllm.errors import CancelledError, InvalidInputError
from flightllm.flight.backend import Description, QueryRecord, QueryResult, Session
from flightllm.flight.results import close_batches
from flightllm.flight.sequence import Sequence


@dataclass(slots=True)
class Prepared:
    """A prepared statement, with the parameters bound last."""

    session: Session
    sql: str
    description: Description
    parameters: pa.Table | None = None


@dataclass(slots=True)
class Statement:
    """A query that GetFlightInfo planned; DoGet runs it.

    The ticket may be fetched again: that runs the query again.
    """

    session: Session
    sql: str
    parameters: pa.Table | None
    settings: Mapping[str, str]
    _waiting: QueryResult | None = None
    _running: list[QueryRecord] = field(default_factory=list)
    _cancelled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self) -> QueryResult:
        """Plan the query, so that its schema and id are known; it runs once its batches are pulled."""
        result = _start(self.session, self.sql, self.parameters, self.settings)
        with self._lock:
            self._waiting = result
            self._running.append(result.query)
        return result

    def take(self, run: Callable[[Callable[[], QueryResult]], QueryResult] = lambda plan: plan()) -> QueryResult:
        """Return the planned result, for one caller to pull; `run` plans it again where it was taken before.

        Raises:
            CancelledError: the statement was cancelled before.
        """
        with self._lock:
            if self._cancelled:
                raise CancelledError("the query was cancelled")
            result, self._waiting = self._waiting, None
        if result is not None:
            return result
        run(self.plan)
        return self.take(run)

    def cancel(self) -> None:
        """Stop the query wherever it is fetched, and keep it from starting. Idempotent."""
        with self._lock:
            self._cancelled = True
            waiting, self._waiting = self._waiting, None
            running = list(self._running)
        for query in running:
            query.cancel()
        if waiting is not None:
            close_batches(waiting.batches)

    def drop(self) -> None:
        """Give up a planned result that nobody fetched; one that is being fetched goes on."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.query.cancel()
            close_batches(waiting.batches)


def _start(session: Session, sql: str, parameters: pa.Table | None, settings: Mapping[str, str]) -> QueryResult:
    if parameters is None:
        return session.execute(sql, None, settings=settings)
    rows = [batch.slice(i, 1) for batch in parameters.to_batches() for i in range(batch.num_rows)]
    if not rows:
        raise InvalidInputError("the statement has parameters, but no row of values was bound")
    if len(rows) == 1:
        return session.execute(sql, rows[0], settings=settings)
    return Sequence(partial(session.execute, sql, settings=settings), rows)
