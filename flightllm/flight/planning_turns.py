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

_T = TypeVar("_T")
_LEASE_SECONDS = 0.25
"""After this time a turn passes on, although its statement is still planned: planning can wait for a model."""
_POLL_SECONDS = 0.25
_ENDLESS = 1 << 30
"""A turn refuses nobody: each statement that waits for one has a place already, and their number is limited."""


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
        self._given: deque[tuple[float, AdmissionSlot]] = deque()
        """The turns that were given out, the oldest first, with the time until which each can be kept."""

    @property
    def queued(self) -> int:
        """Return how many statements wait for a turn."""
        return self._places.queued

    def turn(self, asker: Requester, gone: Callable[[], bool]) -> AdmissionSlot:
        """Wait for a turn; release it once the statement is planned.

        Raises:
            CancelledError: `gone()` returned true.
        """
        self._expire()

        def looks() -> bool:
            self._expire()
            return gone()

        place = self._places.take(asker, looks)
        with self._lock:
            self._given.append((time.monotonic() + self._lease_seconds, place))
        return place

    def _expire(self) -> None:
        """Take back the turns that were kept too long."""
        now, over = time.monotonic(), list[AdmissionSlot]()
        with self._lock:
            while self._given and self._given[0][0] <= now:
                over.append(self._given.popleft()[1])
        for place in over:
            place.release()


def _cores() -> int:
    """Return the number of cores that this process can use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def planned_within(turn: AdmissionSlot, function: Callable[[], _T]) -> Callable[[], _T]:
    """Return a function that gives its turn back once its statement is planned, and at its own end at the latest."""

    def within() -> _T:
        try:
            with when_read(turn.release):
                return function()
        finally:
            turn.release()

    return within
