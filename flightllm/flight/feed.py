"""The upload of a client: read in the thread that answers the call, and processed in another thread."""

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from flightllm.common.admission import AdmissionSlot
from flightllm.common.limits import busy
from flightllm.errors import CancelledError
from flightllm.flight.buffered import StreamBytes
from flightllm.flight.limits import FlightLimits
from flightllm.flight.stalls import given_up
from flightllm.flight.work import CallDeadline
from flightllm.observe.query_record import CancelToken

_AHEAD = 2
"""The number of chunks that are read ahead."""


class UploadQueue(Iterator[Any]):
    """The chunks of one DoPut.

    Only the thread that answers the call can read the chunks, and nothing can interrupt it while the client sends
    nothing. So the thread that works with the chunks, and holds a place, pulls them from this queue. Its wait ends on a
    cancellation, a stall or the deadline. While it waits for the client, it gives its place to others.

    A chunk counts from its arrival until the next one is pulled; with `keeps`, until the queue is closed. While the
    user's uploads hold their part of `everything`, no further chunk is read.
    """

    def __init__(
        self,
        reader: Any,
        limits: FlightLimits,
        stop: CancelToken,
        patience: CallDeadline,
        place: AdmissionSlot,
        everything: StreamBytes,
        *,
        keeps: bool = False,
    ) -> None:
        self.schema = reader.schema
        self._reader = reader
        self._limits = limits
        self._stop = stop
        self._patience = patience
        self._place = place
        self._items: queue.Queue[Any] = queue.Queue(_AHEAD)
        self._all = everything
        self._keeps = keeps
        self._counting, self._closed = threading.Lock(), False
        self._bytes = self._pulled = 0
        """The bytes that count for this upload, and those of the chunk that was pulled last."""
        self._is_full = False
        """Whether the user's uploads have no room for another chunk."""

    def __next__(self) -> Any:
        """Return the next chunk.

        Raises:
            CancelledError: the statement was cancelled, or the client sent nothing for too long.
                StatementTimeoutError: the deadline has passed.
        """
        if not self._keeps:
            self._count(-self._pulled)
        self._pulled = 0
        item = self._next()
        self._pulled = _size(item)
        try:
            self._place.resume(self._is_over)
        except CancelledError:
            self._check(0.0)  # tells the reason
            raise
        if item is None:
            raise StopIteration
        if isinstance(item, Exception):
            raise item
        return item

    def _next(self) -> Any:
        since = time.monotonic()
        while True:
            try:
                return self._items.get(timeout=self._limits.poll_seconds)
            except queue.Empty:
                if self._is_full:  # it is not the client that waits
                    since = time.monotonic()
                self._check(time.monotonic() - since)
                self._place.pause()

    def _is_over(self) -> bool:
        """Return whether the upload has ended, because it was cancelled or took too long."""
        return self._stop.is_set() or self._patience.deadline.over

    def _check(self, seconds: float) -> None:
        deadline = self._patience.deadline
        if self._stop.is_set():
            raise self._stop.reason or CancelledError("the statement was cancelled")
        if deadline.over:
            raise deadline.error()
        if since := given_up(seconds, self._place, self._limits):
            raise CancelledError(f"the upload was cancelled because its client sent no rows for {since}")

    def read(self, work: "Future[Any]") -> None:
        """Read all chunks of the client while the work lasts; called by the thread that answers the call."""
        chunks = iter(self._reader)
        try:
            while self._await_room(work):
                chunk = next(chunks, None)
                if chunk is None:
                    break
                self._count(_size(chunk))
                if not self._offer(chunk, work):
                    return
            self._patience.check()  # a client that left looks as if it had sent everything
            self._offer(None, work)
        except Exception as error:  # noqa: BLE001 - raised again where the chunks are pulled
            self._offer(error, work)

    def _await_room(self, work: "Future[Any]") -> bool:
        """Wait until the user's uploads have room for another chunk; return False if the work has ended.

        Raises:
            BusyError: this upload itself keeps bytes that other uploads of the user need.
        """
        asker = self._place.asker
        while not self._all.has_room(asker, 0):
            if work.done():
                return False
            if self._keeps and self._bytes:
                part = self._all.part_of(asker)
                found = f"the uploads of this user hold all of their {part:,} bytes of the server's memory"
                raise busy("upload_bytes", self._limits.upload_bytes, found)
            self._is_full = True
            time.sleep(self._limits.poll_seconds)
        self._is_full = False
        return True

    def _count(self, size: int) -> None:
        with self._counting:
            if not self._closed:
                self._bytes += size
                self._all.add(self._place.asker, size)

    def close(self) -> None:
        """Count no bytes any more, because the call ends. Idempotent."""
        with self._counting:
            if not self._closed:
                self._closed = True
                self._all.add(self._place.asker, -self._bytes)

    def _offer(self, item: Any, work: "Future[Any]") -> bool:
        while not work.done():
            try:
                self._items.put(item, timeout=self._limits.poll_seconds)
            except queue.Full:
                continue
            return True
        return False


def _size(item: Any) -> int:
    """Return the bytes of a chunk's rows; 0 for an error and for the end."""
    batch = getattr(item, "data", None)
    return 0 if batch is None else int(batch.get_total_buffer_size())
