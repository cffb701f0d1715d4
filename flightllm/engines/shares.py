"""Share the requests that one engine can answer at once fairly among the queries that use the engine."""

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Claims:
    """The places that other waiting callers need to reach their fair parts."""

    earlier: int
    """Claims of the callers that are served before this one."""
    total: int


class Shares:
    """The prompts that one engine can answer at once, shared by all callers of the engine. Thread-safe.

    Each caller has a fair part: the size of the window divided by the number of callers. A caller can always fill this
    part, and can also use places that no other caller claims. Places beyond the fair part return to waiting callers
    as answers arrive; the caller that has waited longest is served first. So a short query waits for a few answers
    of a long query, never for the end of the long query.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._open: list[Share] = []
        self._in_flight = 0
        self._resting = 0
        """The prompts in flight that wait for another prompt: other callers can fill their parts meanwhile."""
        self._last_queue_number = 0

    @property
    def in_flight(self) -> int:
        """Return how many prompts the engine is answering."""
        with self._lock:
            return self._in_flight

    def resize(self, size: int) -> None:
        """Change the size; prompts beyond a smaller size keep their places until they are answered."""
        with self._lock:
            grown, self._size = size > self._size, size
            waiting = self._waiting() if grown else []
        _wake(waiting)

    def rest(self, more: int) -> None:
        """Count more prompts in flight that wait for another prompt, or fewer if `more` is negative."""
        with self._lock:
            self._resting += more
            waiting = self._waiting() if more > 0 else []
        _wake(waiting)

    def open(self, wake: Callable[[], None]) -> "Share":
        """Return the share of a new caller, who must close the share at the end.

        The share calls `wake` when a place is free that the caller asked for and did not get.
        """
        share = Share(self, wake)
        with self._lock:
            self._open.append(share)
        return share

    def take(self, share: "Share", wanted: int, chunk: int) -> int:
        """Reserve places for up to `wanted` prompts, in multiples of `chunk`; return how many were reserved.

        Example: a window of 9 places has three callers, so a fair part is 9 // 3 = 3. Callers hold 7 places; 2 are
        free. A caller claims the places that it lacks if it is waiting (its queue number is not 0).

        | caller | held | queue number | its claim | earlier claims | places within its part | places beyond | result |
        |--------|------|--------------|-----------|----------------|------------------------|---------------|--------|
        | A      | 6    | 0            | 0         | 3 + 2          | min(2 - 5, 3 - 6) = -3 | 2 - 5 = -3    | 0      |
        | B      | 0    | 1            | 3         | 0              | min(2 - 0, 3 - 0) =  2 | 2 - 2 =  0    | 2      |
        | C      | 1    | 2            | 2         | 3              | min(2 - 3, 3 - 1) = -1 | 2 - 3 = -1    | 0      |
        """
        with self._lock:
            fair_part = max(chunk, self._size // len(self._open))
            claims = self._claims_of_others(share, fair_part)
            free = self._size - self._in_flight
            within_part = min(free + self._resting - claims.earlier, fair_part - share.held)
            beyond_part = free - claims.total
            granted = min(wanted, max(within_part, beyond_part, 0))
            granted -= granted % chunk
            share.held += granted
            self._in_flight += granted
            if wanted - granted < chunk:
                share.queue_number = 0
            elif granted or not share.queue_number:
                self._enqueue(share)
        return granted

    def _claims_of_others(self, share: "Share", fair_part: int) -> _Claims:
        """Add up what the other waiting callers lack; the caller holds the lock."""
        earlier = total = 0
        for other in self._open:
            if other is share or not other.queue_number:
                continue
            claim = max(0, fair_part - other.held)
            total += claim
            # A caller that is not waiting comes after all waiting callers.
            if not share.queue_number or other.queue_number < share.queue_number:
                earlier += claim
        return _Claims(earlier, total)

    def _enqueue(self, share: "Share") -> None:
        """Put a share at the end of the queue; the caller holds the lock."""
        self._last_queue_number += 1
        share.queue_number = self._last_queue_number

    def give_back(self, share: "Share", count: int) -> None:
        """Free the places of prompts that were answered or never sent, and wake the callers that wait."""
        with self._lock:
            share.held -= count
            self._in_flight -= count
            if share.queue_number:
                self._enqueue(share)
            waiting = self._waiting()
        _wake(waiting)

    def close(self, share: "Share") -> None:
        """Remove a caller; its prompts in flight keep their places until they are given back. Idempotent."""
        with self._lock:
            if share in self._open:
                self._open.remove(share)
            waiting = self._waiting()
        _wake(waiting)

    def _waiting(self) -> list["Share"]:
        return [share for share in self._open if share.queue_number]


class Share:
    """The places of one caller; `Shares` guards the fields with its lock."""

    def __init__(self, shares: Shares, wake: Callable[[], None]) -> None:
        self._shares = shares
        self.wake = wake
        self.held = 0
        """Places in use by prompts of this caller."""
        self.queue_number = 0
        """Position among the waiting callers, lowest first; 0 if the caller is not waiting."""

    def take(self, wanted: int, chunk: int = 1) -> int:
        """Reserve places for up to `wanted` prompts, in multiples of `chunk`; return how many can be sent now.

        The places stay reserved until they are given back.
        """
        return self._shares.take(self, wanted, chunk)

    def give_back(self, count: int) -> None:
        """Free the places of prompts that were answered."""
        self._shares.give_back(self, count)

    def leave(self, count: int) -> None:
        """Free places that the caller has no prompts for, and leave the queue; 0 places change nothing."""
        if count:
            self.queue_number = 0
            self._shares.give_back(self, count)

    def close(self) -> None:
        """Take no more places. Idempotent."""
        self._shares.close(self)


def _wake(waiting: list[Share]) -> None:
    """Wake callers. The lock must be free: a `wake` function can take places at once."""
    for share in waiting:
        share.wake()
