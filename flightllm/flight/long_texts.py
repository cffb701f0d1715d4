"""Turns for long texts: reading one keeps Python's interpreter busy, and all other statements wait for it."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from flightllm.common.admission import QUEUE, AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import Deadline
from flightllm.common.stopping import when_read
from flightllm.errors import BusyError, CancelledError
from flightllm.flight.limits import FlightLimits

_T = TypeVar("_T")
LONG_BYTES = 20_000
"""A text of more characters, or a plan of more bytes, is long; a shorter one is read in about 20 ms."""


def is_long(text: str | bytes | None) -> bool:
    """Return whether a text or a serialized plan waits for a turn."""
    return text is not None and len(text) > LONG_BYTES


class LongTexts:
    """Gives out the one turn to read a long text, safe to use from several threads.

    Waiting texts take turns over users, and then over the sessions of each user. After each turn follows a rest as
    long as the turn, while other statements run or wait. So long texts take at most half of the time from them.
    """

    def __init__(self, limits: FlightLimits) -> None:
        self._limits = limits
        self._turns = AdmissionControl(
            1, queue=limits.queued_queries, wait_seconds=limits.queue_seconds, poll_seconds=limits.poll_seconds
        )
        self._lock = threading.Lock()
        self._rests_until = 0.0

    @property
    def queued(self) -> int:
        """Return how many texts wait for their turn."""
        return self._turns.queued

    @property
    def reading(self) -> int:
        """Return how many texts are read: 0 or 1."""
        return self._turns.running

    def turn(
        self,
        asker: Requester,
        gone: Callable[[], bool],
        deadline: Deadline,
        *,
        others: Callable[[], bool] = lambda: True,
        plan: bool = False,
    ) -> "Turn":
        """Wait for the turn to read a long text, or a `plan`; the rest is over once `others()` is false.

        Raises:
            BusyError: too many texts wait, or this text waited too long.
            CancelledError: the client left.
            StatementTimeoutError: the deadline passed.
        """
        try:
            place = self._turns.take(asker, lambda: gone() or deadline.over)
        except BusyError as error:
            raise self._busy(error, plan=plan) from error
        except CancelledError:
            if deadline.over:
                raise deadline.error() from None
            raise
        turn = Turn(place, self._rest)
        try:
            self._wait(gone, deadline, others)
        except BaseException:
            turn.end()
            raise
        return turn

    def _busy(self, error: BusyError, *, plan: bool) -> BusyError:
        if error.limit == QUEUE:
            why = f"{self._limits.queued_queries:,} long texts wait to be read"
        else:
            why = f"other long texts were read first for {self._limits.queue_seconds:g} seconds"
        if plan:
            said = f"this plan has more than {LONG_BYTES:,} bytes, and {why}: upload its values as a table"
        else:
            said = (
                f"this text has more than {LONG_BYTES:,} characters, and {why}: move values from the text to"
                " parameters, or upload them as a table"
            )
        busy = BusyError(said)
        busy.limit = error.limit
        return busy

    def _wait(self, gone: Callable[[], bool], deadline: Deadline, others: Callable[[], bool]) -> None:
        """Wait for the end of the rest."""
        with self._lock:
            until = self._rests_until
        while (left := until - time.monotonic()) > 0 and others():
            if deadline.over:
                raise deadline.error()
            if gone():
                raise CancelledError("the client cancelled the statement before it started")
            time.sleep(min(left, self._limits.poll_seconds))

    def _rest(self, seconds: float) -> None:
        with self._lock:
            self._rests_until = time.monotonic() + seconds


class _Garbage:
    """Switches the collection of garbage off while a long text is read; safe to use from several threads.

    A full collection goes through all tokens, up to half a second each time, while all threads wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0
        """The servers of one process can read a text each."""
        self._collected = False

    def keep(self) -> None:
        """Collect no garbage until `collect` was called as often as this method."""
        with self._lock:
            if not self._readers:
                self._collected = gc.isenabled()
                gc.disable()
            self._readers += 1

    def collect(self) -> None:
        """Undo a call of `keep`."""
        with self._lock:
            self._readers -= 1
            if not self._readers and self._collected:
                gc.enable()


_GARBAGE = _Garbage()


class Turn:
    """A turn to read a long text; `end` is idempotent."""

    def __init__(self, place: AdmissionSlot, rest: Callable[[float], None]) -> None:
        self._place = place
        self._rest = rest
        self._lock = threading.Lock()
        """Guards whether the turn has begun and ended: a turn that has ended never begins."""
        self._began: float | None = None
        self._ended = False

    def _begin(self) -> None:
        with self._lock:
            if self._ended:
                raise CancelledError("the statement was cancelled before it started")
            self._began = time.monotonic()
            _GARBAGE.keep()

    def end(self) -> None:
        """End the turn, for the next text in the queue."""
        with self._lock:
            self._end()

    def end_unused(self) -> None:
        """End the turn if the work has not begun; work that has begun ends it even if its client has gone.

        Work that has not begun then fails with `CancelledError` when it begins.
        """
        with self._lock:
            if self._began is None:
                self._end()

    def _end(self) -> None:
        """See `end`; the caller holds the lock."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._began is not None:
                _GARBAGE.collect()
                self._rest(time.monotonic() - self._began)
        finally:
            self._place.release()

    def during(self, function: Callable[[], _T]) -> Callable[[], _T]:
        """Return a function that ends the turn once its text is read and planned, and at its own end at the latest."""

        def within() -> _T:
            with self._reading():
                return function()

        return within

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._begin()
        try:
            with when_read(self.end):
                yield
        finally:
            self.end()
