"""Turns for planning, so that a crowd of statements does not make all others wait."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from flightllm.common.admission import AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.stopping import when_read
from flightllm.common.thread_clock import ThreadClock

_T = TypeVar("_T")
_LEASE_SECONDS = 0.25
"""After this time a turn passes on if its statement waits: planning can wait for a model, or for a lock."""
_MOST_LEASES = 12
"""After so many leases a turn passes on although its statement still computes."""
_BUSY_PART = 0.2
"""A statement computes if it had a core for this part of its share of a lease. All turns share one interpreter."""
_POLL_SECONDS = 0.25
_ENDLESS = 1 << 30
"""A turn refuses nobody: each statement that waits for one has a place already, and their number is limited."""


class PlanningTurn:
    """A turn to plan one statement."""

    def __init__(self, place: AdmissionSlot) -> None:
        self._place = place
        self._clock: ThreadClock | None = None
        self._computed = 0.0
        self._begun = False
        self.leases = 0

    def end(self) -> None:
        """Let the next statement have the turn. Idempotent."""
        self._place.release()

    def end_unused(self) -> None:
        """End the turn if the planning has not begun; planning that has begun goes on although its client has gone."""
        if not self._begun:
            self.end()

    def computed(self) -> float:
        """Return for how many seconds the planning thread had a core since the last call."""
        before, self._computed = self._computed, self._clock.seconds() if self._clock else 0.0
        return self._computed - before

    def during(self, function: Callable[[], _T]) -> Callable[[], _T]:
        """Return a function that ends the turn once its statement is planned, and at its own end at the latest."""

        def within() -> _T:
            self._begun, self._clock = True, ThreadClock()
            try:
                with when_read(self.end):
                    return function()
            finally:
                self.end()

        return within


class PlanningTurns:
    """Gives out one turn for each core to plan a statement, safe to use from several threads.

    Users take turns, because threads take Python's interpreter in no order. Without turns, a user who sends 200
    statements at once makes the statement of another user wait until all 200 are planned. One more turn for each core
    is only for users who have no turn, so that slow plannings of one user keep nobody out.
    """

    def __init__(self, size: int | None = None, lease_seconds: float = _LEASE_SECONDS) -> None:
        cores = _cores() if size is None else size
        self._lease_seconds = lease_seconds
        self._places = AdmissionControl(
            cores, queue=_ENDLESS, wait_seconds=_ENDLESS, poll_seconds=_POLL_SECONDS, reserve=cores
        )
        self._lock = threading.Lock()
        self._given: deque[tuple[float, PlanningTurn]] = deque()
        """The turns that were given out, the oldest lease first, with the end of each lease."""

    @property
    def queued(self) -> int:
        """Return how many statements wait for a turn."""
        return self._places.queued

    def turn(self, asker: Requester, gone: Callable[[], bool]) -> PlanningTurn:
        """Wait for a turn; end it once the statement is planned.

        Raises:
            CancelledError: `gone()` returned true.
        """
        self._expire()

        def looks() -> bool:
            self._expire()
            return gone()

        turn = PlanningTurn(self._places.take(asker, looks))
        with self._lock:
            self._given.append((time.monotonic() + self._lease_seconds, turn))
        return turn

    def _expire(self) -> None:
        """Take back the turns whose leases are over, unless their statements compute."""
        now, over = time.monotonic(), list[PlanningTurn]()
        least = _BUSY_PART * self._lease_seconds / max(1, self._places.running)
        with self._lock:
            while self._given and self._given[0][0] <= now:
                _, turn = self._given.popleft()
                turn.leases += 1
                if turn.leases < _MOST_LEASES and turn.computed() > least:
                    self._given.append((now + self._lease_seconds, turn))
                else:
                    over.append(turn)
        for turn in over:
            turn.end()


def _cores() -> int:
    """Return the number of cores that this process can use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
