"""Stream a query's rows to a client: a thread produces them ahead; the query is cancelled when the client leaves.

Only the thread that answers the call can check whether the client is still there, so it never pulls the query itself. A
query that computes for minutes before its first row is therefore still cancelled at once.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import structlog

from flightllm.common.admission import AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import Deadline, TimeLimit
from flightllm.errors import BusyError, CancelledError, FlightLLMError, StatementTimeoutError
from flightllm.flight.backend import BackendQueryResult
from flightllm.flight.batches import conformed, joined, sliced
from flightllm.flight.buffered import Buffer, StreamBytes
from flightllm.flight.errors import Trailers, statuses
from flightllm.flight.limits import FlightLimits
from flightllm.flight.stalls import given_up
from flightllm.flight.work import CallDeadline, start

_log = structlog.get_logger(__name__)


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
    """The client that reads a result: its presence, its user in the fair queue, and the query's time limit."""

    gone: Callable[[], bool]
    """Returns whether the client left; called only in the thread that pulls the stream."""
    asker: Requester = Requester("", "")  # noqa: RUF009 - frozen
    time_limit: TimeLimit = TimeLimit()  # noqa: RUF009 - frozen
    seen: Callable[[BaseException], None] = lambda _: None
    """Gets the error that ends the stream."""
    draining: Callable[[], bool] = lambda: False
    """Returns whether the server is shutting down, which cancels the query."""
    waiting: StreamBytes = field(default_factory=StreamBytes)
    """The bytes that wait in all streams of the server."""


class _Producer:
    """A thread that pulls a result's batches into a bounded queue until the result ends, fails or is stopped.

    The thread holds the query's place while it computes. It pauses the place while it waits for the client: where the
    client is slow, and after the last row. A stopped query does not wait for its client. A query whose client takes no
    rows for long is cancelled (see `given_up`): the thread that answers that client waits inside gRPC until the client
    leaves.
    """

    def __init__(
        self,
        result: BackendQueryResult,
        limits: FlightLimits,
        place: AdmissionSlot,
        deadline: Deadline,
        waiting: StreamBytes,
    ) -> None:
        self.items: Buffer[_Item] = Buffer(place.asker, waiting)
        self.ended = threading.Event()
        self._result = result
        self._limits = limits
        self._place = place
        self._deadline = deadline
        self._stopped = threading.Event()
        self._read = threading.Event()
        self.sent: float | None = None
        """The time at which the pending rows were sent to the client, in monotonic seconds."""
        self.stalled: str | None = None
        """The exceeded limit, as text, if the query was cancelled because the client took no rows."""

    @property
    def reason(self) -> FlightLLMError | None:
        """Return the error that stopped the query, or None if the stop is not a failure."""
        return self._result.query.reason

    def start(self) -> None:
        """Start to pull, in a new thread.

        Raises:
            BusyError: the system starts no more threads.
        """
        thread = threading.Thread(target=self._run, name=f"result-{self._result.query.query_id}", daemon=True)
        try:
            start(thread, self._place)
        except BusyError:
            give_up(self._result)
            raise

    def done(self) -> None:
        """Record that the client has read all rows."""
        self._read.set()

    def stop(self, reason: FlightLLMError | None) -> None:
        """Cancel the query; the thread closes the result as soon as it notices. Does not wait."""
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
                del batch, conform  # they would stay in memory while the next batch is computed
                if not self._resumed():
                    break
            else:
                self._put(_Done())
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that answers the call
            self._put(_Failure(exc), always=True)
        finally:
            close_batches(batches)
            self.ended.set()
            self._place.pause()
            while not self._read.wait(self._limits.poll_seconds) and not self._over():
                pass
            self._place.release()

    def _put(self, item: _Item, *, always: bool = False) -> bool:
        """Put an item, waiting for room; return False if the query ends first. With `always`, try at least once."""
        size = item.nbytes if isinstance(item, pa.RecordBatch) else 0
        while always or not self._over():
            if self.items.put(item, size, self._limits.poll_seconds):
                return True
            always = False
            self._place.pause()
        return False

    def _resumed(self) -> bool:
        """Wait for a place to compute further rows, if it was paused; return False if the query ends first."""
        try:
            self._place.resume(self._over)
        except CancelledError:
            return False
        return True

    def _over(self) -> bool:
        """Return whether the query was stopped; stop it here if its client was slow for too long."""
        if self._deadline.over:
            self._result.query.cancel(self._deadline.error())
        sent = self.sent
        if sent is not None and not self.stalled:
            self.stalled = given_up(time.monotonic() - sent, self._place, self._limits)
            if self.stalled:
                _log.warning("query cancelled, its client takes no rows", since=self.stalled)
                self._result.query.cancel()
        return self._stopped.is_set() or self._result.query.stopped


def close_batches(batches: Iterator[pa.RecordBatch]) -> None:
    """Close an iterator that can be closed; a generator's `finally` then runs."""
    close = getattr(batches, "close", None)
    if callable(close):
        close()


def give_up(result: BackendQueryResult) -> None:
    """End a query whose result nobody pulls."""
    result.query.cancel()
    close_batches(result.batches)


class ResultStream(Iterator[Any]):
    """The rows of `stream`, for pyarrow to pull; a client that leaves before the first row ends the query too.

    Each batch of a query that calls a model carries the query's progress as JSON metadata.
    """

    def __init__(
        self,
        result: BackendQueryResult,
        limits: FlightLimits,
        slots: AdmissionControl,
        recipient: Recipient,
        call: Trailers | None = None,
    ) -> None:
        self._result = result
        self._rows = stream(result, limits, slots, recipient, call)
        self._started = False

    def __next__(self) -> Any:
        """Return the next batch, together with its metadata, if present."""
        self._started = True
        rows = next(self._rows)
        if not isinstance(rows, pa.RecordBatch) or not self._result.query.has_calls:
            return rows
        progress = self._result.query.progress()
        return (rows, json.dumps(progress).encode()) if progress["calls_expected"] else rows

    def __del__(self) -> None:
        """End a query that nobody began to read: a generator that never ran does not run its `finally`."""
        if not self._started:
            give_up(self._result)


def stream(
    result: BackendQueryResult,
    limits: FlightLimits,
    slots: AdmissionControl,
    recipient: Recipient,
    call: Trailers | None = None,
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows of `result` fitted to `limits`; raise only Flight statuses. See `pulled`."""
    with statuses(call, lambda: result.query.query_id, recipient.seen):
        yield from pulled(result, limits, slots, recipient)


def pulled(
    result: BackendQueryResult, limits: FlightLimits, slots: AdmissionControl, recipient: Recipient
) -> Generator[pa.RecordBatch | pa.Table]:
    """Yield the rows of `result` fitted to `limits`, for any protocol.

    The query ends with the generator, however the generator ends.

    Raises:
        BusyError: no place is free.
        CancelledError: the query was cancelled, or its recipient left.
        FlightLLMError: the query failed.
    """
    try:
        place = slots.take(recipient.asker, recipient.gone, result.query.cancel)
    except BaseException:
        give_up(result)
        raise
    result.query.queued(place.waited)
    patience = CallDeadline(recipient.gone, recipient.time_limit.start())
    producer = _Producer(result, limits, place, patience.deadline, recipient.waiting)
    producer.start()
    reason: FlightLLMError | None = None
    finished = False
    try:
        for rows in _explained(_receive(producer, limits, patience), recipient):
            producer.sent = time.monotonic()
            yield rows
            producer.sent = None
            if producer.stalled:
                raise CancelledError(f"the query was cancelled because its client took no rows for {producer.stalled}")
        finished = True
    except StatementTimeoutError as error:
        reason = error
        raise
    finally:
        if finished:
            producer.done()
        else:
            producer.stop(reason)
        producer.items.close()


def _explained(rows: Iterator[pa.RecordBatch | pa.Table], recipient: Recipient) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield rows; a cancellation by the server's shutdown gets an error that explains it."""
    try:
        yield from rows
    except CancelledError as error:
        if recipient.draining():
            raise CancelledError(
                "the query was cancelled because the server is draining: run it again later"
            ) from error
        raise


def _receive(producer: _Producer, limits: FlightLimits, patience: CallDeadline) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield batches as they come; batches that already wait are yielded together."""
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
    first: pa.RecordBatch, items: Buffer[_Item], limits: FlightLimits
) -> tuple[list[pa.RecordBatch], _Item | None]:
    """Return `first` with the batches that wait, and the next item if it was taken and is not a batch."""
    group, size = [first], first.nbytes
    while size < limits.coalesce_bytes:
        try:
            item = items.get()
        except queue.Empty:
            break
        if not isinstance(item, pa.RecordBatch):
            return group, item
        group.append(item)
        size += item.nbytes
    return group, None


def _next(producer: _Producer, limits: FlightLimits, patience: CallDeadline) -> _Item:
    while True:
        if patience.deadline.over:
            raise patience.deadline.error()
        if (reason := producer.reason) is not None:  # its client must not get rows made before the stop
            raise reason
        try:
            return producer.items.get(timeout=limits.poll_seconds)
        except queue.Empty:
            patience.check()
            if producer.ended.is_set() and producer.items.empty():
                raise CancelledError("the query was cancelled") from None
