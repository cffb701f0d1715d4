"""Track prompts in flight across a server's queries: a query waits for a prompt that another query already asks."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

_STALE_SECONDS = 5.0
"""After this silence, for example because its client stopped reading, a query no longer blocks its prompts."""


@dataclass(slots=True)
class _Flight:
    """A prompt that is being asked, its owner, and the askers that wait for its answer."""

    owner: "Claims"
    waiting: "set[Claims]" = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Shared:
    """The state that all askers of a server share."""

    stale_seconds: float
    clock: Callable[[], float]
    lock: threading.Lock = field(default_factory=threading.Lock)
    flights: dict[bytes, _Flight] = field(default_factory=dict)


class Flights:
    """The prompt keys that queries of the server are asking now. Thread-safe."""

    def __init__(self, stale_seconds: float = _STALE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = _Shared(stale_seconds, clock)

    def open(self) -> "Claims":
        """Return one asker's claims; the asker must close them at its end."""
        return Claims(self._shared)


class Claims:
    """The prompts that one asker asks, and those that it waits for because another asker asks them.

    An asker must send its claimed prompts before it waits for others; otherwise two askers could wait for each other.
    It must claim a key before it looks into the answer cache. The owner puts an answer into the cache before it calls
    `answered`. In this order the asker misses no answer. One thread uses it.
    """

    def __init__(self, shared: _Shared) -> None:
        self._clock, self._stale_seconds = shared.clock, shared.stale_seconds
        self._lock, self._flights = shared.lock, shared.flights
        self._seen = self._clock()
        self.busy = False
        """True while the asker is inside its engine, where two polls can be far apart; it is not stale then."""
        self._owned: set[bytes] = set()
        self._awaited: set[bytes] = set()
        self._fresh: set[bytes] = set()
        """The keys that this asker waits for since the last `claim`."""
        self._landed: dict[bytes, str | None] = {}
        self._looked = self._seen

    @property
    def waiting(self) -> int:
        """Return how many keys others still have to answer, or have answered since the last `landed`."""
        return len(self._awaited) + len(self._landed)

    def claim(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return the keys that this asker must ask; `landed` returns the others once their owners are done.

        The asker must end each returned key by `answered`, `drop` or `close`.
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
                else:  # the former owner can still answer the prompt, but only for itself
                    self._leave(key)
                    flight.owner._owned.discard(key)  # noqa: SLF001 - another of the same class, under the one lock
                    flight.owner = self
                self._owned.add(key)
                mine.add(key)
        return mine

    def answered(self, key: bytes, text: str | None) -> None:
        """Give an answer to the askers that wait for it; None, where it failed or is unreadable, makes them ask."""
        self._seen = self._clock()
        with self._lock:
            self._end(key, text)

    def drop(self, keys: Iterable[bytes]) -> None:
        """Stop asking or awaiting keys of the last claim that the cache knows; other waiting askers look there too.

        A key that an earlier claim waits for still lands.
        """
        with self._lock:
            for key in keys:
                self._end(key, None)
                if key in self._fresh:
                    self._leave(key)

    def landed(self) -> dict[bytes, str | None]:
        """Take the answers that arrived since the last time: the text, or None if this asker must claim the key again.

        Never blocks. Calling it more often than every 50 ms has no use.
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
        """Return a wrapper of `cancelled`: each poll by the engine shows that this asker is alive."""

        def polled() -> bool:
            self._seen = self._clock()
            return cancelled()

        return polled

    def close(self) -> None:
        """Let go of every key: askers that wait for one claim it themselves. Idempotent."""
        with self._lock:
            for key in list(self._owned):
                self._end(key, None)
            for key in list(self._awaited):
                self._leave(key)
            self._landed.clear()

    def __enter__(self) -> Self:
        """Return the claims themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the claims."""
        self.close()

    def _is_stale(self, owner: "Claims") -> bool:
        return not owner.busy and self._clock() - owner._seen > self._stale_seconds  # noqa: SLF001 - another of the same class

    def _end(self, key: bytes, text: str | None) -> None:
        """End a prompt that this asker owns; one that another took over continues. The caller holds the lock."""
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
