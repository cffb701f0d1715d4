"""The upload of a client: read in the thread that answers the call, and processed in another thread."""

import queue
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from flightllm.common.admission import AdmissionSlot
from flightllm.errors import CancelledError
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
    """

    def __init__(
        self, reader: Any, limits: FlightLimits, stop: CancelToken, patience: CallDeadline, place: AdmissionSlot
    ) -> None:
        self.schema = reader.schema
        self._reader = reader
        self._limits = limits
        self._stop = stop
        self._patience = patience
        self._place = place
        self._items: queue.Queue[Any] = queue.Queue(_AHEAD)

    def __next__(self) -> Any:
        """Return the next chunk.

        Raises:
            CancelledError: the statement was cancelled, or the client sent nothing for too long.
                StatementTimeoutError: the deadline has passed.
        """
        item = self._next()
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
        try:
            for chunk in self._reader:
                if not self._offer(chunk, work):
                    return
            self._patience.check()  # a client that left looks as if it had sent everything
            self._offer(None, work)
        except Exception as error:  # noqa: BLE001 - raised again where the chunks are pulled
            self._offer(error, work)

    def _offer(self, item: Any, work: "Future[Any]") -> bool:
        while not work.done():
            try:
                self._items.put(item, timeout=self._limits.poll_seconds)
            except queue.Full:
                continue
            return True
        return False
