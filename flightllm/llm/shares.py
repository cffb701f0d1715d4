"""How an engine's window is shared by the queries that ask it at the same time."""

import threading
from collections.abc import Callable


class Shares:
    """The prompts that one engine may answer at once, shared by all its callers. Safe to use from several threads.

    A caller may have its equal part at any time, and what the others do not want; what it has beyond its part goes to
    those who want theirs as its answers come, first to who has waited longest. So ten prompts wait for a few answers,
    never for another query's end.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._open: list[Share] = []
        self._total = 0
        self._asked = 0

    @property
    def in_flight(self) -> int:
        """Return how many prompts are being answered."""
        with self._lock:
            return self._total

    def open(self, wake: Callable[[], None]) -> "Share":
        """Return a caller's share, to be closed at its end; `wake` is called once it may get what it did not."""
        share = Share(self, wake)
        with self._lock:
            self._open.append(share)
        return share

    def take(self, share: "Share", most: int, step: int) -> int:
        """Count up to `most` prompts, a multiple of `step` of them, as being answered for a share; return how many."""
        with self._lock:
            part = max(step, self._size // len(self._open))
            wanting = {other: max(0, part - other.held) for other in self._open if other.since and other is not share}
            before = sum(want for other, want in wanting.items() if not share.since or other.since < share.since)
            free = self._size - self._total
            room = min(most, max(min(free - before, part - share.held), free - sum(wanting.values()), 0))
            room -= room % step
            share.held += room
            self._total += room
            if most - room < step:
                share.since = 0
            elif room or not share.since:
                self._line_up(share)
        return room

    def _line_up(self, share: "Share") -> None:
        """Put a share last among those who want more; the caller holds the lock."""
        self._asked += 1
        share.since = self._asked

    def give_back(self, share: "Share", count: int) -> None:
        """Count prompts as answered, or as not asked after all."""
        with self._lock:
            share.held -= count
            self._total -= count
            if share.since:
                self._line_up(share)
            waiting = self._waiting()
        for other in waiting:
            other.wake()

    def close(self, share: "Share") -> None:
        """Share among the others; what the engine still answers for it counts until it is given back."""
        with self._lock:
            if share in self._open:
                self._open.remove(share)
            waiting = self._waiting()
        for other in waiting:
            other.wake()

    def _waiting(self) -> list["Share"]:
        return [share for share in self._open if share.since]


class Share:
    """One caller's part: how much is in use, and since when it wants more, by count; 0 where it got all it wanted."""

    def __init__(self, shares: Shares, wake: Callable[[], None]) -> None:
        self._shares = shares
        self.wake = wake
        self.held = 0
        self.since = 0

    def take(self, most: int, step: int = 1) -> int:
        """Return how many of `most` prompts may be asked now, a multiple of `step`; they count until given back."""
        return self._shares.take(self, most, step)

    def give_back(self, count: int) -> None:
        """Say that prompts were answered."""
        self._shares.give_back(self, count)

    def leave(self, count: int) -> None:
        """Say that there were no prompts to ask for so much of what was taken."""
        if count:
            self.since = 0
            self._shares.give_back(self, count)

    def close(self) -> None:
        """Ask no more. Idempotent."""
        self._shares.close(self)
