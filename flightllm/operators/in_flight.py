"""Share prompts in flight across the queries of one server: one query sends a prompt, the others await the answer."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Self

_STALE_SECONDS: Final = 5.0
"""A query that shows no sign of life for this long loses its leases. Its client stopped reading, for example."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """The state that all executors of a server share."""

    stale_seconds: float
    clock: Callable[[], float]
    lock: threading.Lock = field(default_factory=threading.Lock)
    owners: "dict[bytes, Leases]" = field(default_factory=dict)
    """The executor that sends each prompt in flight."""
    waiters: "dict[bytes, set[Leases]]" = field(default_factory=dict)
    """The executors that await a prompt in flight, for the few prompts that have such executors."""


class InFlightRequests:
    """The keys of the prompts that some query of the server sends now. Thread-safe.

    Example: two queries need the key `k`.

    | query 1 | query 2 |
    |---|---|
    | `acquire([k])` returns `{k}`, so it sends the prompt | |
    | | `acquire([k])` returns `set()`, so it waits |
    | `complete(k, "Yes")` | |
    | | `take_answers()` returns `{k: "Yes"}` |
    """

    def __init__(self, stale_seconds: float = _STALE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = _Shared(stale_seconds, clock)

    def open(self) -> "Leases":
        """Return the leases of one executor, which must close them."""
        return Leases(self._shared)


class Leases:
    """The keys that one executor sends, and those that it awaits from other executors. One thread uses it.

    Two rules keep executors from waiting for one another, and from missing an answer:

    - An executor sends the prompts that it leased before it waits for others.
    - An executor leases a key before it reads the answer cache. An owner fills the cache before it calls `complete`.
    """

    def __init__(self, shared: _Shared) -> None:
        self._clock, self._stale_seconds = shared.clock, shared.stale_seconds
        self._lock, self._owners, self._waiters = shared.lock, shared.owners, shared.waiters
        self._alive_at = self._clock()
        self.busy = False
        """Whether the executor is inside its engine. That can take long, so its leases do not expire then."""
        self._owned: set[bytes] = set()
        self._awaited: set[bytes] = set()
        self._newly_awaited: set[bytes] = set()
        """The keys awaited since the last `acquire`."""
        self._answers: dict[bytes, str | None] = {}
        """The answers of other executors since the last `take_answers`."""
        self._checked_at = self._alive_at
        """When the owners of awaited keys were last checked for signs of life."""

    @property
    def waiting(self) -> int:
        """Return how many keys are awaited, or answered since the last `take_answers`."""
        return len(self._awaited) + len(self._answers)

    def acquire(self, keys: Iterable[bytes]) -> set[bytes]:
        """Lease those of `keys` that no other executor has, and return them; await the others.

        The caller must end each lease by `complete`, `release` or `close`.
        """
        self._alive_at = self._clock()
        leased = set(keys)
        with self._lock:
            self._newly_awaited.clear()
            for key in self._owners.keys() & leased:
                owner = self._owners[key]
                if owner is not self and not self._is_stale(owner):
                    leased.discard(key)
                    self._waiters.setdefault(key, set()).add(self)
                    if key not in self._awaited:
                        self._awaited.add(key)
                        self._newly_awaited.add(key)
                else:  # the former owner can still use its answer, but does not share it
                    self._stop_waiting(key)
                    owner._owned.discard(key)  # noqa: SLF001 - another of the same class, under the one lock
            self._owners.update(dict.fromkeys(leased, self))
            self._owned |= leased
        return leased

    def complete(self, key: bytes, text: str | None) -> None:
        """End a lease, and give the answer to the executors that wait. With None they look again: it is unusable."""
        self._alive_at = self._clock()
        with self._lock:
            self._end(key, text)

    def release(self, keys: Iterable[bytes]) -> None:
        """End the leases of keys that the cache has; executors that wait for them then read the cache.

        The keys that the last `acquire` began to await are awaited no longer. `take_answers` still returns those that
        an earlier `acquire` began to await.
        """
        with self._lock:
            for key in keys:
                self._end(key, None)
                if key in self._newly_awaited:
                    self._stop_waiting(key)

    def take_answers(self) -> dict[bytes, str | None]:
        """Return what other executors ended since the last call: the text, or None if the caller must acquire the key.

        Never blocks. A caller need not poll more often than every 50 ms.
        """
        self._alive_at = now = self._clock()
        if not self._awaited and not self._answers:
            return {}
        with self._lock:
            if now - self._checked_at >= self._stale_seconds / 5:
                self._checked_at = now
                for key in [key for key in self._awaited if self._is_stale(self._owners[key])]:
                    self._stop_waiting(key)
                    self._answers[key] = None
            answers, self._answers = self._answers, {}
        return answers

    def heartbeat(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that returns `cancelled()` and is a sign of life: engines poll it while they work."""

        def polled() -> bool:
            self._alive_at = self._clock()
            return cancelled()

        return polled

    def close(self) -> None:
        """End every lease; executors that wait must acquire the keys again. Idempotent."""
        with self._lock:
            for key in list(self._owned):
                self._end(key, None)
            for key in list(self._awaited):
                self._stop_waiting(key)
            self._answers.clear()

    def __enter__(self) -> Self:
        """Return the leases."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _is_stale(self, owner: "Leases") -> bool:
        return not owner.busy and self._clock() - owner._alive_at > self._stale_seconds  # noqa: SLF001 - another of the same class

    def _end(self, key: bytes, text: str | None) -> None:
        """End a lease, unless another executor has taken it over. The caller holds the lock."""
        if key not in self._owned:
            return
        self._owned.discard(key)
        del self._owners[key]
        for waiter in self._waiters.pop(key, ()):
            waiter._awaited.discard(key)  # noqa: SLF001 - another of the same class, under the one lock
            waiter._answers[key] = text  # noqa: SLF001 - as above

    def _stop_waiting(self, key: bytes) -> None:
        """Await a key no longer. The caller holds the lock."""
        self._answers.pop(key, None)
        if key in self._awaited:
            self._awaited.discard(key)
            waiters = self._waiters[key]
            waiters.discard(self)
            if not waiters:
                del self._waiters[key]
