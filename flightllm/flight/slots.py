"""How many results stream at once."""

import threading
import time
from collections.abc import Callable

from flightllm.errors import CancelledError, EngineUnavailableError
from flightllm.flight.backend import QueryRecord


class Slots:
    """A bounded number of places for running queries, safe to use from several threads."""

    def __init__(self, size: int, *, wait_seconds: float, poll_seconds: float) -> None:
        self._size = size
        self._wait_seconds = wait_seconds
        self._poll_seconds = poll_seconds
        self._free = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._running: dict[int, QueryRecord] = {}

    def take(self, query: QueryRecord, gone: Callable[[], bool]) -> None:
        """Wait for a place for `query`.

        Raises:
            CancelledError: `gone()` turned true.
            EngineUnavailableError: no place came free in time.
        """
        deadline = time.monotonic() + self._wait_seconds
        while not self._free.acquire(timeout=self._poll_seconds):
            if gone():
                raise CancelledError("the client cancelled the query before it started")
            if time.monotonic() > deadline:
                raise EngineUnavailableError(
                    f"the server already runs limits.concurrent_queries = {self._size} queries; try again later"
                )
        with self._lock:
            self._running[id(query)] = query

    def release(self, query: QueryRecord) -> None:
        """Give back the place of `query`, once."""
        with self._lock:
            if self._running.pop(id(query), None) is None:
                return
        self._free.release()

    @property
    def running(self) -> int:
        """Return how many places are taken."""
        with self._lock:
            return len(self._running)

    def cancel_all(self) -> None:
        """Cancel every running query."""
        with self._lock:
            queries = list(self._running.values())
        for query in queries:
            query.cancel()
