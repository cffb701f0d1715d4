"""Connections to a source that wait for the next statement."""

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Final

_MOST: Final = 4
"""The most connections that wait."""
_SECONDS: Final = 60.0
"""A connection that waited for longer is not used again: a router between here and the source can have dropped it."""


class IdleConnections:
    """The idle connections of one source. Thread-safe."""

    def __init__(self, connect: Callable[[], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._connect, self._clock = connect, clock
        self._lock = Lock()
        self._idle: list[tuple[float, Any]] = []

    def take(self) -> tuple[Any, bool]:
        """Return a connection, and whether it served a statement before."""
        late = self._clock() - _SECONDS
        with self._lock:
            old = [one for since, one in self._idle if since < late]
            self._idle = [(since, one) for since, one in self._idle if since >= late]
            found = self._idle.pop()[1] if self._idle else None
        _close(old)
        return (self._connect(), False) if found is None else (found, True)

    def give(self, connection: Any) -> None:
        """Keep a connection whose statement has ended without an error."""
        with self._lock:
            kept = len(self._idle) < _MOST
            if kept:
                self._idle.append((self._clock(), connection))
        if not kept:
            _close([connection])

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        _close([one for _, one in idle])


def _close(connections: list[Any]) -> None:
    for one in connections:
        with suppress(Exception):  # the source can have closed it
            one.close()
