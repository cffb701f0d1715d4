"""Statements between two calls of a client: prepared, or planned and waiting to be fetched."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import chain

import pyarrow as pa

from flightllm.errors import CancelledError, InvalidInputError, PermissionDeniedError
from flightllm.flight.backend import Description, QueryRecord, QueryResult, Session
from flightllm.flight.parts import Parts
from flightllm.flight.results import close_batches
from flightllm.flight.sequence import Sequence


class Cancelled(IntEnum):
    """What a request to cancel came to; the numbers are those of CancelStatus and of CancelResult."""

    CANCELLED = 1
    CANCELLING = 2
    NOT_CANCELLABLE = 3


@dataclass(slots=True)
class Prepared:
    """A prepared statement, SQL or a serialized Substrait plan, with the parameters bound last."""

    session: Session
    text: str | bytes
    description: Description
    parameters: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A result under the column names that a prepared statement promised before it had values."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    query: QueryRecord


@dataclass(slots=True)
class Statement:
    """A query, SQL or a serialized Substrait plan, that GetFlightInfo planned; DoGet runs it.

    The ticket may be fetched again, which runs the query again, unless it has several `parts`. `names` are those of
    the columns computed from parameters, as they were promised before there were values; empty for other columns.
    """

    session: Session
    text: str | bytes
    parameters: pa.Table | None
    settings: Mapping[str, str]
    parts: int = 1
    names: tuple[str, ...] = ()
    _waiting: QueryResult | None = None
    _shared: Parts | None = None
    _running: list[QueryRecord] = field(default_factory=list)
    _rights: object = None
    """What its user might see when it was planned."""
    _cancelled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self) -> QueryResult:
        """Plan the query, so that its schema and id are known; it runs once its batches are pulled."""
        rights = self.session.rights
        result = self._named(_start(self.session, self.text, self.parameters, self.settings))
        with self._lock:
            self._rights = rights
            self._waiting = result
            self._running = [*filter(_is_alive, self._running), result.query]
            if self.parts > 1:
                self._shared = Parts(result, self.parts)
        return result

    def take(
        self, part: int = 0, again: Callable[[Callable[[], QueryResult]], QueryResult] = lambda plan: plan()
    ) -> QueryResult:
        """Return the planned result, or a part of it, for one caller to pull; once it was taken, `again` plans it anew.

        Raises:
            CancelledError: the statement was cancelled before.
            NotFoundError: the part was taken before.
        """
        with self._lock:
            if self._cancelled:
                raise CancelledError("the query was cancelled")
            result, self._waiting = self._waiting, None
        if self.session.rights != self._rights:  # what was planned may show what is not granted any more
            if result is not None:
                result.query.cancel()
                close_batches(result.batches)
            if self._shared is not None:
                raise PermissionDeniedError("what you may see has changed: run the query again")
            result = None
        if self._shared is not None:
            return self._shared.take(part)
        if result is not None:
            return result
        again(self.plan)
        return self.take(part, again)

    def cancel(self) -> Cancelled:
        """Stop the query wherever it is fetched, and keep it from starting. Idempotent; does not wait."""
        with self._lock:
            again, self._cancelled = self._cancelled, True
            waiting, self._waiting = self._waiting, None
            running = list(self._running)
        alive = list(filter(_is_alive, running))
        for query in running:
            query.cancel()
        if waiting is not None:
            close_batches(waiting.batches)
        if waiting is not None or (again and not alive):
            return Cancelled.CANCELLED
        return Cancelled.CANCELLING if alive else Cancelled.NOT_CANCELLABLE

    def drop(self) -> None:
        """Give up a planned result that nobody fetched; one that is being fetched goes on."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.query.cancel()
            close_batches(waiting.batches)

    def _named(self, result: QueryResult) -> QueryResult:
        schema = result.schema
        if not any(self.names) or len(self.names) != len(schema):
            return result
        fields = [column.with_name(name or column.name) for column, name in zip(schema, self.names, strict=True)]
        return _Renamed(pa.schema(fields), result.batches, result.query)


def _is_alive(query: QueryRecord) -> bool:
    return query.progress()["status"] in ("planned", "running")


def _start(
    session: Session, text: str | bytes, parameters: pa.Table | None, settings: Mapping[str, str]
) -> QueryResult:
    if isinstance(text, bytes):
        return session.execute_plan(text, settings)
    if parameters is None:
        return session.execute(text, None, settings=settings)
    rows = (batch.slice(i, 1) for batch in parameters.to_batches() for i in range(batch.num_rows))
    first = next(rows, None)
    if first is None:
        raise InvalidInputError("the statement has parameters, but no row of values was bound")
    if parameters.num_rows == 1:
        return session.execute(text, first, settings=settings)
    return Sequence(partial(session.execute, text, settings=settings), chain([first], rows))
