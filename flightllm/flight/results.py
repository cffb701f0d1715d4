"""Stream a query's rows to a client: produced ahead in a thread, cancelled when the client goes.

The thread that answers the call may alone ask whether the client is still there, so it never pulls the query itself:
a query that computes for minutes before its first row is still cancelled at once.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import structlog

from flightllm.errors import CancelledError
from flightllm.flight.backend import QueryResult
from flightllm.flight.batches import conformed, joined, sliced
from flightllm.flight.errors import statuses
from flightllm.flight.limits import FlightLimits
from flightllm.flight.slots import Slots

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


class _Producer:
    """Pull a result's batches into a bounded queue until it ends, fails or is told to stop.

    It stays until they are taken: where the client takes none for `limits.stalled_seconds` it gives the query up, and
    calls `stalled`. The thread that answers such a client waits inside gRPC, for as long as the client is there.
    """

    def __init__(self, result: QueryResult, limits: FlightLimits, stalled: Callable[[], None]) -> None:
        self.items: queue.Queue[_Item] = queue.Queue(_AHEAD)
        self.sent: float | None = None
        """When the client was sent the rows that it has not taken yet, in monotonic seconds."""
        self._result = result
        self._limits = limits
        self._stalled = stalled
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to pull, in a thread of its own."""
        threading.Thread(target=self._run, name=f"result-{self._result.query.query_id}", daemon=True).start()

    def end(self) -> None:
        """Let the thread go: everything was taken."""
        self._stopped.set()

    def stop(self) -> None:
        """Cancel the query; the thread closes the result as soon as it gets the word. Does not wait."""
        self._stopped.set()
        self._result.query.cancel()

    @property
    def stopped(self) -> bool:
        """Tell whether the query was given up."""
        return self._stopped.is_set()

    def _run(self) -> None:
        structlog.contextvars.bind_contextvars(query_id=self._result.query.query_id)
        batches = self._result.batches
        try:
            for batch in batches:
                conform = conformed(batch, self._result.schema)
                if not all(self._put(piece) for piece in sliced(conform, self._limits.batch_bytes)):
                    break
            self._put(_Done())
        except BaseException as exc:  # noqa: BLE001 - raised again in the thread that answers the call
            self._put(_Failure(exc))
        finally:
            close_batches(batches)
        while not self._stopped.wait(self._limits.poll_seconds):
            self._check_stall()

    def _put(self, item: _Item) -> bool:
        while not self._stopped.is_set():
            try:
                self.items.put(item, timeout=self._limits.poll_seconds)
            except queue.Full:
                self._check_stall()
                continue
            return True
        return False

    def _check_stall(self) -> None:
        sent, most = self.sent, self._limits.stalled_seconds
        if most and sent is not None and time.monotonic() - sent > most:
            _log.warning("query given up, its client takes no rows", seconds=most)
            self.stop()
            self._stalled()


def close_batches(batches: Iterator[pa.RecordBatch]) -> None:
    """Close an iterator that can be closed; a generator's `finally` then runs."""
    close = getattr(batches, "close", None)
    if callable(close):
        close()


class ResultStream(Iterator[pa.RecordBatch]):
    """The rows of `stream`, for pyarrow to pull; a client that goes before the first row ends the query too."""

    def __init__(self, result: QueryResult, limits: FlightLimits, slots: Slots, gone: Callable[[], bool]) -> None:
        self._result = result
        self._rows = stream(result, limits, slots, gone)
        self._started = False

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch."""
        self._started = True
        return next(self._rows)

    def __del__(self) -> None:
        """End a query that nobody began to read: a generator that never ran has no `finally` to do it."""
        if not self._started:
            self._result.query.cancel()
            close_batches(self._result.batches)


def stream(
    result: QueryResult, limits: FlightLimits, slots: Slots, gone: Callable[[], bool]
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows of `result` fitted to `limits`, raising Flight statuses only.

    `gone` tells whether the client left; it is only asked in the thread that pulls this generator. However the
    generator ends, the query behind it ends too.
    """
    with statuses(lambda: result.query.query_id):
        try:
            slots.take(result.query, gone)
        except BaseException:
            result.query.cancel()
            close_batches(result.batches)
            raise
        producer = _Producer(result, limits, lambda: slots.release(result.query))
        finished = False
        try:
            producer.start()
            for rows in _receive(producer.items, limits, gone):
                producer.sent = time.monotonic()
                yield rows
                producer.sent = None
                if producer.stopped:
                    raise CancelledError(
                        f"the query was given up because its client took no rows for [recovery] stalled_seconds = "
                        f"{limits.stalled_seconds:g}"
                    )
            finished = True
        finally:
            slots.release(result.query)
            producer.end() if finished else producer.stop()


def _receive(
    items: "queue.Queue[_Item]", limits: FlightLimits, gone: Callable[[], bool]
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield batches as they come, those that are already waiting at a time."""
    held: _Item | None = None
    while True:
        item = held if held is not None else _next(items, limits, gone)
        if isinstance(item, _Done):
            return
        if isinstance(item, _Failure):
            raise item.error
        group, held = _ready_after(item, items, limits)
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


def _next(items: "queue.Queue[_Item]", limits: FlightLimits, gone: Callable[[], bool]) -> _Item:
    while True:
        try:
            return items.get(timeout=limits.poll_seconds)
        except queue.Empty:
            if gone():
                raise CancelledError("the client cancelled the query") from None
