"""Admission control: how many statements run at once, and which waiting statement runs next."""

import threading
import time
from collections.abc import Callable

from flightllm.common.fair_queue import FairQueue, HeldCounts, Requester
from flightllm.common.limits import busy
from flightllm.errors import BusyError, CancelledError


class AdmissionSlot:
    """A place that a statement has taken. Release it once no work runs for the statement any more."""

    def __init__(self, slots: "AdmissionControl", asker: Requester, cancel: Callable[[], None], waited: float) -> None:
        self._slots = slots
        self.asker = asker
        self.cancel = cancel
        self.waited = waited
        """Seconds that the statement waited for the place."""

    def release(self) -> None:
        """Give the place back. Idempotent."""
        self._slots.give_back(self)

    def left_behind(self) -> None:
        """Count the place as abandoned, until it is released: its work goes on, but no client waits for the result."""
        self._slots.leave_behind(self)

    def wanted(self) -> bool:
        """Return whether to cancel this statement: a user with fewer places waits for one."""
        return self._slots.wanted(self)


class _Ticket:
    """A waiting statement."""

    def __init__(self, asker: Requester) -> None:
        self.asker = asker
        self.called = threading.Event()
        """Set once the statement has a place, or once it lost its place in the queue to another user."""
        self.refused = False


class AdmissionControl:
    """A bounded number of places for statements, safe to use from several threads.

    Waiting statements take turns over users, and over the sessions of each user; the user with the fewest places comes
    first. If the queue is full, the user or session with the most waiting statements loses one of them.
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
        """The key in `[limits]` that sets the size."""
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._free = size
        self._places: set[AdmissionSlot] = set()
        self._leaving: set[AdmissionSlot] = set()
        """Places for which `wanted` returned true."""
        self._left_behind: set[AdmissionSlot] = set()
        self._held = HeldCounts()
        self._waiting: FairQueue[_Ticket] = FairQueue()
        self._waits = 0
        self._waited = 0.0

    def take(
        self, asker: Requester, gone: Callable[[], bool], cancel: Callable[[], None] = lambda: None
    ) -> AdmissionSlot:
        """Wait for a place; `cancel` stops the statement that takes it.

        Raises:
            CancelledError: `gone()` returned true.
            BusyError: the queue is full, or no place became free in time.
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
                if not self._waiting.remove(asker, ticket) and not ticket.refused:  # just granted
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

    def _place(self, asker: Requester, cancel: Callable[[], None], waited: float) -> AdmissionSlot:
        """Create the object for a place that is already counted as taken; the caller holds the lock."""
        place = AdmissionSlot(self, asker, cancel, waited)
        self._places.add(place)
        self._waits += 1
        self._waited += waited
        return place

    def give_back(self, place: AdmissionSlot) -> None:
        """Take back a place that is still taken, and pass it to the next waiting statement."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
                self._leaving.discard(place)
                self._left_behind.discard(place)
                self._held.add(place.asker, -1)
                self._hand_on()

    def leave_behind(self, place: AdmissionSlot) -> None:
        """See `AdmissionSlot.left_behind`."""
        with self._lock:
            if place in self._places:
                self._left_behind.add(place)

    def _hand_on(self) -> None:
        """Give a free place to the next waiting statement; the caller holds the lock."""
        if self._waiting:
            ticket = self._waiting.take(self._held)
            self._held.add(ticket.asker, 1)
            ticket.called.set()
        else:
            self._free += 1

    def wanted(self, place: AdmissionSlot) -> bool:
        """Return whether a user or session with fewer places waits for this one.

        At any time, this is true for at most as many places as there are such waiting statements.
        """
        with self._lock:
            if place in self._leaving or place not in self._places:
                return place in self._leaving
            leaving, owner = HeldCounts(), place.asker
            for other in self._leaving:
                leaving.add(other.asker, 1)

            def has_fewer(asker: Requester) -> bool:
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
        """Return how many places are held by work that cannot be stopped and whose client has gone."""
        with self._lock:
            return len(self._left_behind)

    @property
    def queued(self) -> int:
        """Return how many statements wait."""
        with self._lock:
            return len(self._waiting)

    def waits(self) -> tuple[int, float]:
        """Return how many places were given out so far, and the total seconds of waiting for them."""
        with self._lock:
            return self._waits, self._waited

    def cancel_all(self) -> None:
        """Cancel all statements that have a place."""
        with self._lock:
            places = list(self._places)
        for place in places:
            place.cancel()
