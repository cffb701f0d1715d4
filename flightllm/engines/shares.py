"""Share the requests that one engine can answer at once fairly among the queries that use the engine."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Lane(Protocol):
    """The waiting prompts of one caller, in a queue that several callers share."""

    def __len__(self) -> int:
        """Return the number of waiting prompts; any thread can ask."""

    @property
    def user(self) -> str:
        """Return the user whose prompts these are."""

    @property
    def priority(self) -> int:
        """Return the priority number of the next prompt."""

    def bound(self, places: int) -> int | None:
        """Return how many of all places prompts of this priority can hold at present; None if all of them."""

    def first(self, lanes: Sequence[Any]) -> int:
        """Return the place of the lane of the same queue whose prompt comes next; of equals, the first one."""


def lane_of(requests: object) -> Lane | None:
    """Return the lane from which an iterator takes its requests, or None if they wait in no shared queue."""
    found: Lane | None = getattr(requests, "lane", None)
    return found


class Shares:
    """The prompts that one engine can answer at once, shared by all callers of the engine. Thread-safe.

    Each caller has a fair part: the size of the window divided by the number of callers. A caller can always fill this
    part, and can also use places that no other caller claims. Places beyond the fair part return to waiting callers
    as answers arrive; the caller that has waited longest is served first. So a short query waits for a few answers
    of a long query, never for the end of the long query.

    Callers with a lane in a shared queue follow two more rules. A free place goes to the prompt that the queue names
    first. Only half of a fair part is sure: the queue can give the other half to other callers of the same user. The
    callers of one user together always have their fair parts.
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

    def open(self, wake: Callable[[], None], lane: Lane | None = None) -> "Share":
        """Return the share of a new caller, who must close the share at the end.

        The share calls `wake` when a place is free that the caller asked for and did not get. `lane` holds the
        caller's waiting prompts, if they wait in a queue that callers share.
        """
        share = Share(self, wake, lane)
        with self._lock:
            self._open.append(share)
        return share

    def take(self, share: "Share", wanted: int, chunk: int) -> int:
        """Reserve places for up to `wanted` prompts, in multiples of `chunk`; return how many were reserved.

        Example: a window of 9 places has three callers without lanes, so a fair part is 9 // 3 = 3. Callers hold 7
        places; 2 are free. Callers with a queue number wait.

        | caller | held | queue number | first free place           | second free place          | result |
        |--------|------|--------------|----------------------------|----------------------------|--------|
        | A      | 6    | 0            | others lack a part         | others lack a part         | 0      |
        | B      | 0    | 1            | holds least, waits longest | lacks a part, waits longer | 2      |
        | C      | 1    | 2            | waits less long than B     | waits less long than B     | 0      |
        """
        with self._lock:
            granted = self._granted(share, wanted, chunk)
            share.held += granted
            self._in_flight += granted
            # A caller asks for a few places at a time, so one whose lane has more prompts still waits.
            asks_again = share.lane is not None and len(share.lane) > granted
            if wanted - granted < chunk and not asks_again:
                share.queue_number = 0
            elif granted or not share.queue_number:
                self._enqueue(share)
        return granted

    def _granted(self, share: "Share", wanted: int, chunk: int) -> int:
        """Give out the free places one chunk after the other, and return how many go to this caller."""
        free = self._size - self._in_flight
        if free + self._resting < chunk or wanted < chunk:
            return 0
        parts = dict.fromkeys(self._open, max(chunk, self._size // len(self._open)))
        bounds = {one: one.lane.bound(self._size) for one in self._open if one.lane is not None}
        bounded = [one for one, bound in bounds.items() if bound is not None]
        room = max((chunk, *(bounds[one] or 0 for one in bounded)))
        parts |= {one: max(chunk, min(parts[one], room // len(bounded))) for one in bounded}
        room -= sum(one.held for one in bounded)
        callers = sorted((other for other in self._open if other.queue_number), key=lambda one: one.queue_number)
        callers += [share] if share not in callers else []
        held = {one: one.held for one in self._open}
        granted = 0
        while free + self._resting >= chunk and granted + chunk <= wanted:
            able = callers if room >= chunk else [one for one in callers if one not in bounded]
            if share not in able:
                break
            following = self._next(share, able, held, parts, chunk)
            if free < chunk and held[following] + chunk > parts[following]:
                break  # the places of prompts that rest fill parts only
            held[following] += chunk
            free -= chunk
            room -= chunk if following in bounded else 0
            granted += chunk if following is share else 0
        return granted

    def _next(
        self,
        share: "Share",
        callers: Sequence["Share"],
        held: Mapping["Share", int],
        parts: Mapping["Share", int],
        chunk: int,
    ) -> "Share":
        """Return the caller that gets the next place; `callers` wait, the longest waiting first."""
        below = [one for one in callers if held[one] + chunk <= parts[one]]
        if not below:
            return share if share.lane is None else _first([one for one in callers if one.lane is not None])
        if any(one.lane is None for one in below):
            return below[0]
        unsure = [one for one in below if 2 * held[one] < parts[one]]
        if unsure:
            return min(unsure, key=lambda one: one.lane.priority if one.lane else 0)
        missing: defaultdict[str, int] = defaultdict(int)
        for one in self._open:
            if one.lane is not None:
                missing[one.lane.user] += parts[one] - held[one]
        users = {one.lane.user for one in callers if one.lane is not None}
        short = {user for user in users if missing[user] > 0}
        return _first([one for one in callers if one.lane is not None and one.lane.user in (short or users)])

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

    def __init__(self, shares: Shares, wake: Callable[[], None], lane: Lane | None) -> None:
        self._shares = shares
        self.wake = wake
        self.lane = lane
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


def _first(callers: Sequence[Share]) -> Share:
    """Return the caller whose prompt the shared queue names first; all have a lane."""
    lanes = [one.lane for one in callers if one.lane is not None]
    return callers[lanes[0].first(lanes)]
