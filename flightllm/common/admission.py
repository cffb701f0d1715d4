"""How many statements are worked on at once, and who of those that wait comes next."""

import threading
import time
from collections.abc import Callable

from flightllm.common.fair_queue import Asker, Held, Turns
from flightllm.common.limits import busy
from flightllm.errors import BusyError, CancelledError


class Place:
    """A place that a statement has taken, to be released once nothing works for it any more."""

    def __init__(self, slots: "Slots", asker: Asker, cancel: Callable[[], None], waited: float) -> None:
        self._slots = slots
        self.asker = asker
        self.cancel = cancel
        self.waited = waited
        """Seconds that the statement waited for it."""

    def release(self) -> None:
        """Give it back. Idempotent."""
        self._slots.give_back(self)

    def left_behind(self) -> None:
        """Count it among those whose work goes on though nobody waits for it, until it is released."""
        self._slots.leave_behind(self)

    def wanted(self) -> bool:
        """Tell whether somebody waits for it who has fewer places than who has it: then it is to be given up."""
        return self._slots.wanted(self)


class _Ticket:
    """A statement that waits."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.called = threading.Event()
        """It has a place now, or others took its place in the queue."""
        self.refused = False


class Slots:
    """A bounded number of places for statements, safe to use from several threads.

    Those that wait are served in turns: over users, and over the sessions of each, and who has fewer places comes
    first. Where too many wait, it is who has most of them that is refused.
    """

    def __init__(
        self,
        size: int,
        *,
        queue: int,
        wait_seconds: float,
        poll_seconds: float,
        limit: str = "concurrent_queries",
    ) -> None:
        self.size = size
        self._limit = limit
        """What sets the size in `[limits]`."""
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._free = size
        self._places: set[Place] = set()
        self._leaving: set[Place] = set()
        """Places that were said to be wanted."""
        self._left_behind: set[Place] = set()
        self._held = Held()
        self._waiting: Turns[_Ticket] = Turns()
        self._waits = 0
        self._waited = 0.0

    def take(self, asker: Asker, gone: Callable[[], bool], cancel: Callable[[], None] = lambda: None) -> Place:
        """Wait for a place; `cancel` stops what it is taken for.

        Raises:
            CancelledError: `gone()` turned true.
            BusyError: too many wait already, or no place came free in time.
        """
        started = time.monotonic()
        ticket = _Ticket(asker)
        with self._lock:
            if self._free:
                self._free -= 1
                self._held.add(asker, 1)
                return self._place(asker, cancel, 0.0)
            if len(self._waiting) >= self._queue:
                other = self._waiting.make_room(asker)
                if other is None:
                    raise self._too_many()
                other.refused = True
                other.called.set()
            self._waiting.add(asker, ticket)
        try:
            self._wait(ticket, started, gone)
        except (BusyError, CancelledError):
            with self._lock:
                if not self._waiting.remove(asker, ticket) and not ticket.refused:  # it was its turn just now
                    self._held.add(asker, -1)
                    self._hand_on()
            raise
        with self._lock:
            return self._place(asker, cancel, time.monotonic() - started)

    def _too_many(self) -> BusyError:
        found = f"all {self.size} places are taken and {self._queue:,} statements wait for one"
        return busy("queued_queries", self._queue, found)

    def _wait(self, ticket: _Ticket, started: float, gone: Callable[[], bool]) -> None:
        while not ticket.called.wait(self._poll_seconds):
            if gone():
                raise CancelledError("the client cancelled the statement before it started")
            if time.monotonic() - started > self._wait_seconds:
                found = f"the statement waited {self._wait_seconds:g} seconds ([limits] queue_seconds) for its turn"
                raise busy(self._limit, self.size, found)
        if ticket.refused:
            raise self._too_many()

    def _place(self, asker: Asker, cancel: Callable[[], None], waited: float) -> Place:
        """Hand out a place that was counted as taken; the caller holds the lock."""
        place = Place(self, asker, cancel, waited)
        self._places.add(place)
        self._waits += 1
        self._waited += waited
        return place

    def give_back(self, place: Place) -> None:
        """Take a place back, if it is still taken, for the next that waits."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
                self._leaving.discard(place)
                self._left_behind.discard(place)
                self._held.add(place.asker, -1)
                self._hand_on()

    def leave_behind(self, place: Place) -> None:
        """See `Place.left_behind`."""
        with self._lock:
            if place in self._places:
                self._left_behind.add(place)

    def _hand_on(self) -> None:
        """Give a free place to the next that waits; the caller holds the lock."""
        if self._waiting:
            ticket = self._waiting.take(self._held)
            self._held.add(ticket.asker, 1)
            ticket.called.set()
        else:
            self._free += 1

    def wanted(self, place: Place) -> bool:
        """Tell whether somebody waits who has fewer places than who has this one; says so of no more than needed."""
        with self._lock:
            if place in self._leaving or place not in self._places:
                return place in self._leaving
            leaving, owner = Held(), place.asker
            for other in self._leaving:
                leaving.add(other.asker, 1)

            def has_fewer(asker: Asker) -> bool:
                if asker.user != owner.user:
                    more = self._held.of_user(owner.user) - leaving.of_user(owner.user) - self._held.of_user(asker.user)
                else:
                    more = self._held.of(owner) - leaving.of(owner) - self._held.of(asker)
                return more > len(self._leaving)

            if len(self._leaving) >= sum(count for asker, count in self._waiting.waiting().items() if has_fewer(asker)):
                return False
            self._leaving.add(place)
            return True

    @property
    def running(self) -> int:
        """Return how many places are taken."""
        with self._lock:
            return self.size - self._free

    @property
    def left_behind(self) -> int:
        """Return how many places are taken by work that cannot be stopped, and that nobody waits for any more."""
        with self._lock:
            return len(self._left_behind)

    @property
    def queued(self) -> int:
        """Return how many statements wait."""
        with self._lock:
            return len(self._waiting)

    def waits(self) -> tuple[int, float]:
        """Return how many places were handed out so far, and how many seconds they were waited for in all."""
        with self._lock:
            return self._waits, self._waited

    def cancel_all(self) -> None:
        """Cancel whatever has a place."""
        with self._lock:
            places = list(self._places)
        for place in places:
            place.cancel()
