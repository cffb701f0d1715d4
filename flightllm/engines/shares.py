"""Share the requests that one engine can answer at once fairly among the queries that use the engine."""

import threading
from collections import Counter, defaultdict
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

    def ranks(self, lanes: Sequence[Any]) -> Sequence[tuple[int, int]]:
        """Return a key for each of some lanes of the same queue: the prompt of the lane with the least comes next."""


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

    @property
    def callers(self) -> int:
        """Return how many callers have a share."""
        with self._lock:
            return len(self._open)

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
        callers = sorted(self._waiting(), key=lambda one: one.queue_number)
        callers += [share] if share not in callers else []
        places = _Round(self._open, callers, self._size, chunk)
        granted = 0
        while free + self._resting >= chunk and granted + chunk <= wanted:
            following = places.next(share)
            if following is None or (free < chunk and not places.lacks_part(following)):
                break  # the places of prompts that rest fill parts only
            places.give(following)
            free -= chunk
            granted += chunk if following is share else 0
        return granted

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


class _Round:
    """The order in which waiting callers get the places that are free at one moment, chunk by chunk.

    `callers` wait, the longest waiting first; `shares` are all callers. The lock of `Shares` guards it.
    """

    def __init__(self, shares: Sequence["Share"], callers: Sequence["Share"], size: int, chunk: int) -> None:
        self._chunk = chunk
        self._able = callers
        self._held = {one: one.held for one in shares}
        self._lanes = {one: one.lane for one in shares if one.lane is not None}
        self._parts = _fair_parts(shares, size, chunk)
        bounds = {one: bound for one, lane in self._lanes.items() if (bound := lane.bound(size)) is not None}
        self._bounded = bounds.keys()
        if bounds:
            room = max(chunk, *bounds.values())
            most = max(chunk, room // len(bounds))
            self._parts |= {one: min(self._parts[one], most) for one in bounds}
            self._room = room - sum(one.held for one in bounds)
            """The places that all bounded callers together can still take."""
            self._exclude_bounded()
        self._ranks: Mapping[Share, tuple[int, int]] = {}

    def next(self, share: "Share") -> "Share | None":
        """Return the caller that gets the next place; None if `share` can get no place of this round."""
        if share not in self._able:
            return None
        if len(self._able) == 1:
            return share
        held, parts, lanes = self._held, self._parts, self._lanes
        below = [one for one in self._able if held[one] + self._chunk <= parts[one]]
        if not below:
            return share if share.lane is None else self._first(self._able)
        if any(one.lane is None for one in below):
            return below[0]
        unsure = [one for one in below if 2 * held[one] < parts[one]]
        if unsure:
            return min(unsure, key=lambda one: lanes[one].priority)
        missing: defaultdict[str, int] = defaultdict(int)
        for one, lane in lanes.items():
            missing[lane.user] += parts[one] - held[one]
        short = [one for one in self._able if one in lanes and missing[lanes[one].user] > 0]
        return self._first(short or self._able)

    def lacks_part(self, share: "Share") -> bool:
        """Return whether a caller can get one more chunk before it has its part."""
        return self._held[share] + self._chunk <= self._parts[share]

    def give(self, share: "Share") -> None:
        """Count a chunk as given to a caller."""
        self._held[share] += self._chunk
        if share in self._bounded:
            self._room -= self._chunk
            self._exclude_bounded()

    def _exclude_bounded(self) -> None:
        if self._room < self._chunk:
            self._able = [one for one in self._able if one not in self._bounded]

    def _first(self, callers: Sequence["Share"]) -> "Share":
        """Return the caller whose prompt the shared queue names first, of those that have a lane."""
        if len(callers) == 1:
            return callers[0]
        if not self._ranks:  # the first prompts stay the same in a round
            waiting = [one for one in self._able if one in self._lanes]
            lanes = [self._lanes[one] for one in waiting]
            self._ranks = dict(zip(waiting, lanes[0].ranks(lanes), strict=True))
        return min((one for one in callers if one in self._ranks), key=self._ranks.__getitem__)


def _fair_parts(shares: Sequence["Share"], size: int, chunk: int) -> dict["Share", int]:
    """Return each caller's part. Users have equal parts, and so have the callers of one user.

    Each caller without a lane counts as a user.
    """
    users = Counter(one if one.lane is None else one.lane.user for one in shares)
    own = {one: users[one if one.lane is None else one.lane.user] for one in shares}
    return {one: max(chunk, size // (len(users) * count)) for one, count in own.items()}


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
