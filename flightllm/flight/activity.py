"""The calls that clients make: how many run, how many there were, and when the latest one ended."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Activity:
    """Counts the calls of clients. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._count = 0
        self._latest = time.monotonic()

    def begin(self) -> None:
        """Count a call that begins."""
        with self._lock:
            self._running += 1
            self._count += 1

    def end(self) -> None:
        """Count the end of a call."""
        with self._lock:
            self._running -= 1
            self._latest = time.monotonic()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call that lasts as long as the block."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    @property
    def count(self) -> int:
        """Return how many calls began so far."""
        return self._count

    @property
    def running(self) -> int:
        """Return how many calls run."""
        return self._running

    @property
    def quiet_seconds(self) -> float:
        """Return the seconds since the latest call ended."""
        return time.monotonic() - self._latest
