"""Share an engine's window among concurrent queries."""

import threading
from collections.abc import Callable


class Shares:
    """The prompts that one engine can answer at once, shared by all callers. Thread-safe.

    A caller can use its equal part at any time, and also the part that other callers do not want. When a caller with
    more than its part gets answers, the freed room goes to callers below their part, the longest waiting first. So a
    query of ten prompts waits only for a few answers, never for the end of another query.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._open: list[Share] = []
        self._total = 0
        self._asked = 0

    @property
    def in_flight(self) -> int:
        """Return how many prompts the engine is answering."""
        with self._lock:
            return self._total

    def open(self, wake: Callable[[], None]) -> "Share":
        """Return a caller's share, which the caller must close; `wake` is called when there can be more room for it."""
        share = Share(self, wake)
        with self._lock:
            self._open.append(share)
        return share

    def take(self, share: "Share", most: int, step: int) -> int:
        """Reserve room for up to `most` prompts, a multiple of `step`, for a share; return how many.

        A share can take the larger of two numbers: `min(free - before, part - held)` and `free - all wants`. `before`
        is what longer waiting shares want. With `size` 12, three shares (`part` 4), A waiting longest, and C asking:

        | share | held | wants |
        |---|---|---|
        | A | 2 | 2 |
        | B | 5 | 0 |
        | C | 1 | 3 |

        Here 4 places are free and `before` is 2, so C gets min(2, 3) = 2 places now.
        """
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
        """Put a share last among the shares that wait for room; the caller holds the lock."""
        self._asked += 1
        share.since = self._asked

    def give_back(self, share: "Share", count: int) -> None:
        """Release the room of prompts that were answered, or were not sent."""
        with self._lock:
            share.held -= count
            self._total -= count
            if share.since:
                self._line_up(share)
            waiting = self._waiting()
        for other in waiting:
            other.wake()

    def close(self, share: "Share") -> None:
        """Divide the window among the other shares; prompts in flight of the closed share count until given back."""
        with self._lock:
            if share in self._open:
                self._open.remove(share)
            waiting = self._waiting()
        for other in waiting:
            other.wake()

    def _waiting(self) -> list["Share"]:
        return [share for share in self._open if share.since]


class Share:
    """One caller's share of the window: `held` prompts, and `since`, its number in the order of waiting shares.

    `since` is 0 for a share that got all the room that it wanted.
    """

    def __init__(self, shares: Shares, wake: Callable[[], None]) -> None:
        self._shares = shares
        self.wake = wake
        self.held = 0
        self.since = 0

    def take(self, most: int, step: int = 1) -> int:
        """Reserve room for up to `most` prompts, a multiple of `step`; return how many, and give them back later."""
        return self._shares.take(self, most, step)

    def give_back(self, count: int) -> None:
        """Release the room of answered prompts."""
        self._shares.give_back(self, count)

    def leave(self, count: int) -> None:
        """Release taken room for which there were no prompts, and stop waiting for more."""
        if count:
            self.since = 0
            self._shares.give_back(self, count)

    def close(self) -> None:
        """Stop using the window. Idempotent."""
        self._shares.close(self)
