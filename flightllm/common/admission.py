"""Admission control: how many statements run at once, and which waiting statement runs next."""

import threading
import time
from collections.abc import Callable

from flightllm.common.fair_queue import FairQueue, HeldCounts, Requester
from flightllm.common.limits import busy
from flightllm.errors import BusyError, CancelledError

QUEUE = "queued_queries"
"""The key in `[limits]` of the most waiting statements."""
_RESERVE_PARTS = 4
"""Users without a place share this part of `size` as additional places."""
_PAUSED, _PAUSED_OF_USER = 16, 4
"""The most paused statements for each place: of all users together, and of one user."""


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

    def pause(self) -> bool:
        """Give the place to others while the statement waits for its client; see `resume`. Idempotent.

        Returns False, and keeps the place, if the user has too many paused statements.
        """
        return self._slots.pause(self)

    def resume(self, gone: Callable[[], bool]) -> None:
        """Wait for a place again after `pause`; a statement that is not paused does not change.

        Raises:
            CancelledError: `gone()` returned true; the statement is still paused.
        """
        self._slots.resume(self, gone)

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

    A user without a place gets one of a quarter more places if all are taken, so no user keeps all others out. Half of
    these places are also for sessions without a place, where all clients are one user. A statement that waits for its
    client can pause: it holds no place until it goes on.
    """

    def __init__(
        self,
        size: int,
        *,
        queue: int,
        wait_seconds: float,
        poll_seconds: float,
        limit: str = "concurrent_queries",
        reserve: int | None = None,
    ) -> None:
        self.size = size
        self._reserve = size // _RESERVE_PARTS if reserve is None else reserve
        """The additional places for users and sessions without a place."""
        self._limit = limit
        """The key in `[limits]` that sets the size."""
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._taken = 0
        self._paused: dict[AdmissionSlot, None] = {}
        """Statements that hold no place because they wait for their clients."""
        self._paused_counts = HeldCounts()
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
            if self._has_room(asker):
                self._occupy(asker)
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
                self._withdraw(ticket)
            raise
        with self._lock:
            return self._place(asker, cancel, time.monotonic() - started)

    def take_now(self, asker: Requester, cancel: Callable[[], None] = lambda: None) -> AdmissionSlot | None:
        """Take a place as `take` does, or return None if it would have to wait."""
        with self._lock:
            if not self._has_room(asker):
                return None
            self._occupy(asker)
            return self._place(asker, cancel, 0.0)

    def _has_room(self, asker: Requester) -> bool:
        """Return whether a statement can have a place at once; the caller holds the lock."""
        if not self._held.of_user(asker.user):
            return self._taken < self.size + self._reserve
        return self._taken < self.size + (0 if self._held.of(asker) else self._reserve // 2)

    def _occupy(self, asker: Requester) -> None:
        self._taken += 1
        self._held.add(asker, 1)

    def _vacate(self, asker: Requester) -> None:
        """Take a place back, and pass places on to waiting statements; the caller holds the lock."""
        self._taken -= 1
        self._held.add(asker, -1)
        while self._waiting and self._has_room(self._waiting.first(self._held)):
            ticket = self._waiting.take(self._held)
            self._occupy(ticket.asker)
            ticket.called.set()

    def _withdraw(self, ticket: _Ticket) -> None:
        """Remove a statement that no longer waits; the caller holds the lock."""
        if not self._waiting.remove(ticket.asker, ticket) and not ticket.refused:  # just granted
            self._vacate(ticket.asker)

    def _too_many(self) -> BusyError:
        found = f"all {self.size} places are taken and {self._queue:,} statements wait for one"
        return busy(QUEUE, self._queue, found)

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
                self._remove(place)
            elif place in self._paused:
                self._unpause(place)

    def _remove(self, place: AdmissionSlot) -> None:
        self._places.remove(place)
        self._leaving.discard(place)
        self._left_behind.discard(place)
        self._vacate(place.asker)

    def _unpause(self, place: AdmissionSlot) -> None:
        del self._paused[place]
        self._paused_counts.add(place.asker, -1)

    def pause(self, place: AdmissionSlot) -> bool:
        """See `AdmissionSlot.pause`."""
        with self._lock:
            if place not in self._places:
                return place in self._paused
            own = self._paused_counts.of_user(place.asker.user)
            full = own >= _PAUSED_OF_USER * self.size or len(self._paused) >= _PAUSED * self.size
            if full or place in self._leaving:
                return False
            self._paused[place] = None
            self._paused_counts.add(place.asker, 1)
            self._remove(place)
            return True

    def resume(self, place: AdmissionSlot, gone: Callable[[], bool]) -> None:
        """See `AdmissionSlot.resume`."""
        while True:
            with self._lock:
                if place not in self._paused:
                    return
                ticket = _Ticket(place.asker)
                if self._has_room(place.asker):
                    self._occupy(place.asker)
                    ticket.called.set()
                else:
                    self._waiting.add(place.asker, ticket)
            while not ticket.called.wait(self._poll_seconds):
                if gone():
                    with self._lock:
                        self._withdraw(ticket)
                    raise CancelledError("the statement was cancelled while it waited for its turn")
            with self._lock:
                if ticket.refused:  # another user needed room in the queue: wait again
                    continue
                if place not in self._paused:  # released meanwhile
                    self._vacate(place.asker)
                    return
                self._unpause(place)
                self._places.add(place)
                return

    def leave_behind(self, place: AdmissionSlot) -> None:
        """See `AdmissionSlot.left_behind`."""
        with self._lock:
            if place in self._places:
                self._left_behind.add(place)

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
        """Return how many statements run: those with a place, and the paused ones."""
        with self._lock:
            return self._taken + len(self._paused)

    @property
    def paused(self) -> int:
        """Return how many statements hold no place because they wait for their clients."""
        with self._lock:
            return len(self._paused)

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
        """Cancel all statements that have a place or are paused."""
        with self._lock:
            places = [*self._places, *self._paused]
        for place in places:
            place.cancel()
