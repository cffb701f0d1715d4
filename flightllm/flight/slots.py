"""How many statements are worked on at once, and who of those that wait comes next."""

import threading
import time
from collections.abc import Callable

from flightllm.errors import BusyError, CancelledError
from flightllm.flight.turns import Asker, Turns
from flightllm.limits import busy


class Place:
    """A place that a statement has taken, to be released once nothing works for it any more."""

    def __init__(self, slots: "Slots", cancel: Callable[[], None], waited: float) -> None:
        self._slots = slots
        self.cancel = cancel
        self.waited = waited
        """Seconds that the statement waited for it."""

    def release(self) -> None:
        """Give it back. Idempotent."""
        self._slots.give_back(self)


class _Ticket:
    """A statement that waits."""

    def __init__(self) -> None:
        self.granted = threading.Event()


class Slots:
    """A bounded number of places for statements, safe to use from several threads.

    Those that wait are served in turns: over users, and over the sessions of each.
    """

    def __init__(self, size: int, *, queue: int, wait_seconds: float, poll_seconds: float) -> None:
        self.size = size
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._free = size
        self._places: set[Place] = set()
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
        ticket = _Ticket()
        with self._lock:
            if self._free:
                self._free -= 1
                return self._place(cancel, 0.0)
            if len(self._waiting) >= self._queue:
                found = f"all {self.size} places are taken and {len(self._waiting):,} statements wait for one"
                raise busy("queued_queries", self._queue, found)
            self._waiting.add(asker, ticket)
        try:
            self._wait(ticket, started, gone)
        except (BusyError, CancelledError):
            with self._lock:
                if not self._waiting.remove(asker, ticket):  # it was its turn just now
                    self._hand_on()
            raise
        with self._lock:
            return self._place(cancel, time.monotonic() - started)

    def _wait(self, ticket: _Ticket, started: float, gone: Callable[[], bool]) -> None:
        while not ticket.granted.wait(self._poll_seconds):
            if gone():
                raise CancelledError("the client cancelled the statement before it started")
            if time.monotonic() - started > self._wait_seconds:
                found = f"the statement waited {self._wait_seconds:g} seconds ([limits] queue_seconds) for its turn"
                raise busy("concurrent_queries", self.size, found)

    def _place(self, cancel: Callable[[], None], waited: float) -> Place:
        """Hand out a place that was counted as taken; the caller holds the lock."""
        place = Place(self, cancel, waited)
        self._places.add(place)
        self._waits += 1
        self._waited += waited
        return place

    def give_back(self, place: Place) -> None:
        """Take a place back, if it is still taken, for the next that waits."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
                self._hand_on()

    def _hand_on(self) -> None:
        """Give a free place to the next that waits; the caller holds the lock."""
        if self._waiting:
            self._waiting.take().granted.set()
        else:
            self._free += 1

    @property
    def running(self) -> int:
        """Return how many places are taken."""
        with self._lock:
            return self.size - self._free

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
