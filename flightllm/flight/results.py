"""Stream a query's rows to a client: produced ahead in a thread, cancelled when the client goes.

The thread that answers the call may alone ask whether the client is still there, so it never pulls the query itself:
a query that computes for minutes before its first row is still cancelled at once.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import structlog

from flightllm.common.admission import Place, Slots
from flightllm.common.fair_queue import Asker
from flightllm.common.limits import Deadline, TimeLimit
from flightllm.errors import BusyError, CancelledError, FlightLLMError, StatementTimeoutError
from flightllm.flight.backend import QueryResult
from flightllm.flight.batches import conformed, joined, sliced
from flightllm.flight.errors import Trailers, statuses
from flightllm.flight.limits import FlightLimits
from flightllm.flight.stalls import given_up
from flightllm.flight.work import Patience, start

_log = structlog.get_logger(__name__)
_AHEAD = 8
"""Batches produced before the client took them: at most 16 MiB a stream."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Done:
    """The end of the stream."""


_Item: TypeAlias = Any | _Failure | _Done
"""A record batch (pyarrow ships no types), a failure to raise again, or the end."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who reads a result: whether it is gone, whose turn it takes, how long the query may run."""

    gone: Callable[[], bool]
    """Asked only in the thread that pulls the stream."""
    asker: Asker = Asker("", "")  # noqa: RUF009 - frozen
    time_limit: TimeLimit = TimeLimit()  # noqa: RUF009 - frozen
    seen: Callable[[BaseException], None] = lambda _: None
    """Gets what the stream fails with."""
    draining: Callable[[], bool] = lambda: False
    """Tells whether the server stops, which cancels the query."""


class _Producer:
    """Pull a result's batches into a bounded queue until it ends, fails or is told to stop.

    Its thread holds the query's place until nothing of the query runs here any more and its client has read all; a
    query that was stopped waits for no client, and one whose client takes no rows for long is given up (see
    `given_up`): the thread that answers such a client waits inside gRPC, for as long as the client is there.
    """

    def __init__(self, result: QueryResult, limits: FlightLimits, place: Place, deadline: Deadline) -> None:
        self.items: queue.Queue[_Item] = queue.Queue(_AHEAD)
        self.ended = threading.Event()
        self._result = result
        self._limits = limits
        self._place = place
        self._deadline = deadline
        self._stopped = threading.Event()
        self._read = threading.Event()
        self.sent: float | None = None
        """When the client was sent the rows that it has not taken yet, in monotonic seconds."""
        self.stalled: str | None = None
        """Since when the client should have taken rows: the query was given up."""

    @property
    def reason(self) -> FlightLLMError | None:
        """Return why the query was stopped, where that makes it a failure."""
        return self._result.query.reason

    def start(self) -> None:
        """Begin to pull, in a thread of its own.

        Raises:
            BusyError: there is no room for one.
        """
        thread = threading.Thread(target=self._run, name=f"result-{self._result.query.query_id}", daemon=True)
        try:
            start(thread, self._place)
        except BusyError:
            give_up(self._result)
            raise

    def done(self) -> None:
        """Say that the client has read everything."""
        self._read.set()

    def stop(self, reason: FlightLLMError | None) -> None:
        """Cancel the query; the thread closes the result as soon as it gets the word. Does not wait."""
        self._place.left_behind()
        self._stopped.set()
        self._result.query.cancel(reason)
        self._read.set()

    def _run(self) -> None:
        structlog.contextvars.bind_contextvars(query_id=self._result.query.query_id)
        batches = self._result.batches
        try:
            for batch in batches:
                conform = conformed(batch, self._result.schema)
                if not all(self._put(piece) for piece in sliced(conform, self._limits.batch_bytes)):
                    break
            else:
                self._put(_Done())
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that answers the call
            self._put(_Failure(exc), always=True)
        finally:
            close_batches(batches)
            self.ended.set()
            while not self._read.wait(self._limits.poll_seconds) and not self._over():
                pass
            self._place.release()

    def _put(self, item: _Item, *, always: bool = False) -> bool:
        """Wait until the queue has room; give up once the query is over, after a try where it is to come `always`."""
        while always or not self._over():
            try:
                self.items.put(item, timeout=self._limits.poll_seconds)
            except queue.Full:
                always = False
                continue
            return True
        return False

    def _over(self) -> bool:
        """Tell whether the query was stopped; one that a slow client keeps beyond its time is stopped here."""
        if self._deadline.over:
            self._result.query.cancel(self._deadline.error())
        sent = self.sent
        if sent is not None and not self.stalled:
            self.stalled = given_up(time.monotonic() - sent, self._place, self._limits)
            if self.stalled:
                _log.warning("query given up, its client takes no rows", since=self.stalled)
                self._result.query.cancel()
        return self._stopped.is_set() or self._result.query.stopped


def close_batches(batches: Iterator[pa.RecordBatch]) -> None:
    """Close an iterator that can be closed; a generator's `finally` then runs."""
    close = getattr(batches, "close", None)
    if callable(close):
        close()


def give_up(result: QueryResult) -> None:
    """End a query that nobody pulls."""
    result.query.cancel()
    close_batches(result.batches)


class ResultStream(Iterator[Any]):
    """The rows of `stream`, for pyarrow to pull; a client that goes before the first row ends the query too.

    Along with each batch of a query that calls a model goes its progress as JSON.
    """

    def __init__(
        self,
        result: QueryResult,
        limits: FlightLimits,
        slots: Slots,
        recipient: Recipient,
        call: Trailers | None = None,
    ) -> None:
        self._result = result
        self._rows = stream(result, limits, slots, recipient, call)
        self._started = False

    def __next__(self) -> Any:
        """Return the next batch, with metadata where there are."""
        self._started = True
        rows = next(self._rows)
        if not isinstance(rows, pa.RecordBatch):
            return rows
        progress = self._result.query.progress()
        return (rows, json.dumps(progress).encode()) if progress["calls_expected"] else rows

    def __del__(self) -> None:
        """End a query that nobody began to read: a generator that never ran has no `finally` to do it."""
        if not self._started:
            give_up(self._result)


def stream(
    result: QueryResult, limits: FlightLimits, slots: Slots, recipient: Recipient, call: Trailers | None = None
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows of `result` fitted to `limits`, raising Flight statuses only; see `pulled`."""
    with statuses(call, lambda: result.query.query_id, recipient.seen):
        yield from pulled(result, limits, slots, recipient)


def pulled(
    result: QueryResult, limits: FlightLimits, slots: Slots, recipient: Recipient
) -> Generator[pa.RecordBatch | pa.Table]:
    """Yield the rows of `result` fitted to `limits`, whatever protocol they go out by.

    However the generator ends, the query behind it ends too.

    Raises:
        BusyError: there is no place for it.
        CancelledError: it was cancelled, or its recipient is gone.
        FlightLLMError: what the query fails with.
    """
    try:
        place = slots.take(recipient.asker, recipient.gone, result.query.cancel)
    except BaseException:
        give_up(result)
        raise
    result.query.queued(place.waited)
    patience = Patience(recipient.gone, recipient.time_limit.start())
    producer = _Producer(result, limits, place, patience.deadline)
    producer.start()
    reason: FlightLLMError | None = None
    finished = False
    try:
        for rows in _explained(_receive(producer, limits, patience), recipient):
            producer.sent = time.monotonic()
            yield rows
            producer.sent = None
            if producer.stalled:
                raise CancelledError(f"the query was given up because its client took no rows for {producer.stalled}")
        finished = True
    except StatementTimeoutError as error:
        reason = error
        raise
    finally:
        if finished:
            producer.done()
        else:
            producer.stop(reason)


def _explained(rows: Iterator[pa.RecordBatch | pa.Table], recipient: Recipient) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield rows; say where the query is cancelled because the server stops."""
    try:
        yield from rows
    except CancelledError as error:
        if recipient.draining():
            raise CancelledError("the query was cancelled because the server is draining: ask again later") from error
        raise


def _receive(producer: _Producer, limits: FlightLimits, patience: Patience) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield batches as they come, those that are already waiting at a time."""
    held: _Item | None = None
    while True:
        item = held if held is not None else _next(producer, limits, patience)
        if isinstance(item, _Done):
            return
        if isinstance(item, _Failure):
            raise item.error
        group, held = _ready_after(item, producer.items, limits)
        yield joined(group, limits.batch_bytes)


def _ready_after(
    first: pa.RecordBatch, items: "queue.Queue[_Item]", limits: FlightLimits
) -> tuple[list[pa.RecordBatch], _Item | None]:
    """Return `first` with the batches that wait, and the item taken that is none."""
    group, size = [first], first.nbytes
    while size < limits.coalesce_bytes:
        try:
            item = items.get_nowait()
        except queue.Empty:
            break
        if not isinstance(item, pa.RecordBatch):
            return group, item
        group.append(item)
        size += item.nbytes
    return group, None


def _next(producer: _Producer, limits: FlightLimits, patience: Patience) -> _Item:
    while True:
        if patience.deadline.over:
            raise patience.deadline.error()
        if (reason := producer.reason) is not None:  # rows made before are not for its client any more
            raise reason
        try:
            return producer.items.get(timeout=limits.poll_seconds)
        except queue.Empty:
            patience.check()
            if producer.ended.is_set() and producer.items.empty():
                raise CancelledError("the query was cancelled") from None
