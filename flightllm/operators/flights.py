"""Prompts in flight across the queries of one server: what one query asks now, another waits for and does not ask."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

_STALE_SECONDS = 5.0
"""A query not heard of for so long (its client reads no further) no longer keeps others from asking its prompts."""


@dataclass(slots=True)
class _Flight:
    """A prompt being asked."""

    owner: "Claims"
    waiting: "set[Claims]" = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all askers of a server share."""

    stale_seconds: float
    clock: Callable[[], float]
    lock: threading.Lock = field(default_factory=threading.Lock)
    flights: dict[bytes, _Flight] = field(default_factory=dict)


class Flights:
    """The prompt keys that some query of the server is asking now. Thread-safe."""

    def __init__(self, stale_seconds: float = _STALE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = _Shared(stale_seconds, clock)

    def open(self) -> "Claims":
        """Return one asker's share, to be closed at its end."""
        return Claims(self._shared)


class Claims:
    """What one asker asks, and what it waits for because another asker asks it.

    An asker sends what it claimed before it waits for others, or two could wait for one another. It claims before it
    looks into the answer cache, and an owner puts an answer into the cache before it calls `answered`: so between the
    two, no answer is missed. One thread uses it.
    """

    def __init__(self, shared: _Shared) -> None:
        self._clock, self._stale_seconds = shared.clock, shared.stale_seconds
        self._lock, self._flights = shared.lock, shared.flights
        self._seen = self._clock()
        self.busy = False
        """The asker is inside its engine, which may take long between two polls; so it is not given up."""
        self._owned: set[bytes] = set()
        self._awaited: set[bytes] = set()
        self._fresh: set[bytes] = set()
        """Those waited for since the last `claim`."""
        self._landed: dict[bytes, str | None] = {}
        self._looked = self._seen

    @property
    def waiting(self) -> int:
        """Return how many keys others still have to answer, or have answered since the last `landed`."""
        return len(self._awaited) + len(self._landed)

    def claim(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of `keys` that this asker is to ask; the others come out of `landed` once their owner is done.

        Every key returned is to be ended by `answered`, `drop` or `close`.
        """
        self._seen = self._clock()
        mine = set()
        with self._lock:
            self._fresh.clear()
            for key in keys:
                flight = self._flights.get(key)
                if flight is not None and flight.owner is not self and not self._is_stale(flight.owner):
                    flight.waiting.add(self)
                    if key not in self._awaited:
                        self._awaited.add(key)
                        self._fresh.add(key)
                    continue
                if flight is None:
                    self._flights[key] = _Flight(self)
                else:  # the former owner may still answer it, for itself
                    self._leave(key)
                    flight.owner._owned.discard(key)  # noqa: SLF001 - another of the same class, under the one lock
                    flight.owner = self
                self._owned.add(key)
                mine.add(key)
        return mine

    def answered(self, key: bytes, text: str | None) -> None:
        """Give an answer to those who wait for it; None where it failed or cannot be read: they ask themselves."""
        self._seen = self._clock()
        with self._lock:
            self._end(key, text)

    def drop(self, keys: Iterable[bytes]) -> None:
        """Neither ask nor wait for those of the keys claimed last that the cache knows; others who wait look there too.

        A key that an earlier claim waits for still lands.
        """
        with self._lock:
            for key in keys:
                self._end(key, None)
                if key in self._fresh:
                    self._leave(key)

    def landed(self) -> dict[bytes, str | None]:
        """Take what others answered since the last time: the text, or None where this asker must claim it again.

        Never blocks; there is no use in calling it more often than every 50 ms.
        """
        self._seen = now = self._clock()
        if not self._awaited and not self._landed:
            return {}
        with self._lock:
            if now - self._looked >= self._stale_seconds / 5:
                self._looked = now
                for key in [key for key in self._awaited if self._is_stale(self._flights[key].owner)]:
                    self._leave(key)
                    self._landed[key] = None
            landed, self._landed = self._landed, {}
        return landed

    def watched(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """Return `cancelled` such that polling it, as engines do while they work, shows that this asker is alive."""

        def polled() -> bool:
            self._seen = self._clock()
            return cancelled()

        return polled

    def close(self) -> None:
        """Let go of every key: those who wait for one claim it anew. Idempotent."""
        with self._lock:
            for key in list(self._owned):
                self._end(key, None)
            for key in list(self._awaited):
                self._leave(key)
            self._landed.clear()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _is_stale(self, owner: "Claims") -> bool:
        return not owner.busy and self._clock() - owner._seen > self._stale_seconds  # noqa: SLF001 - another of the same class

    def _end(self, key: bytes, text: str | None) -> None:
        """End an own flight; one taken over by another goes on there. The caller holds the lock."""
        if key not in self._owned:
            return
        self._owned.discard(key)
        for asker in self._flights.pop(key).waiting:
            asker._awaited.discard(key)  # noqa: SLF001 - another of the same class, under the one lock
            asker._landed[key] = text  # noqa: SLF001 - as above

    def _leave(self, key: bytes) -> None:
        """Stop waiting for a key. The caller holds the lock."""
        self._landed.pop(key, None)
        if key in self._awaited:
            self._awaited.discard(key)
            self._flights[key].waiting.discard(self)
