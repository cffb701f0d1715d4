"""A guard that stops a statement before the server's process uses so much memory that the kernel kills it."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from flightllm.common.limits import over_limit
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import QueryRecord
from flightllm.sandbox.memory import machine_memory, memory_of

_SECONDS = 0.1
"""The interval of the checks."""
_FREE_PARTS = 5
"""The guard leaves 1 / `_FREE_PARTS` of the machine's memory for other processes."""
_ROOM_PARTS = 4
"""Cached rows go where a query could not get its `memory_bytes`, or this part of the guarded memory if that is less."""
_LEAST_PARTS = 16
"""The guard stops only statements during which memory grew by this part of the guarded memory.

That is a quarter of what the guard leaves free, so the process can grow so much beyond the limit."""
_PATIENCE = 20
"""The number of checks that a stopped statement gets to return its memory after its end."""
_LONGEST = 600
"""The number of checks after which the guard gives up on a stopped statement that goes on: a join stops in a minute."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watched:
    """A statement, and the growth of memory that it can have caused."""

    record: QueryRecord
    before: int
    """The bytes used when the statement began, plus all later growth that a stopped statement has to answer for."""
    at_stop: int | None = None
    """The bytes used when a check first saw that the statement was stopped."""
    left: int = _LONGEST
    """The number of checks for which a stopped statement still answers for growth."""

    @property
    def answers(self) -> bool:
        """Return whether this statement was stopped, and its memory is not back yet."""
        return self.at_stop is not None and self.left > 0


class MemoryGuard:
    """Checks the process's memory in its own thread; without `/proc` it does nothing.

    The guard cannot know which statement has allocated memory. So it compares, for each statement, how much the
    process has grown since the statement began. It stops the statement with the largest growth. The statement's error
    names the limit `memory_bytes`.

    A stopped statement can grow further, and its memory comes back late. Until then it answers for all growth since it
    began: other statements count only what grew before. A statement during which memory grew little is never stopped.
    """

    def __init__(
        self,
        queries: QueryLog,
        memory_bytes: int,
        most: int | None = None,
        used: Callable[[], int] = lambda: memory_of(os.getpid()),
        make_room: Callable[[int], int] = lambda _: 0,
    ) -> None:
        """Stop statements when `used()` returns more than `most` bytes; by default, 4/5 of the machine's memory.

        `make_room` gets a number of bytes, drops cached rows of about this size, and returns the bytes dropped. While
        statements run, it is called first: as soon as a query could not get its `memory_bytes` below `most`.
        """
        whole = machine_memory()
        self._queries = queries
        self._memory_bytes = memory_bytes
        self._most = whole - whole // _FREE_PARTS if most is None else most
        self._used = used
        self._make_room = make_room
        self._watched: dict[str, _Watched] = {}
        """The statements that run, and stopped ones whose memory is not back yet, by id."""
        self._last = 0
        """The bytes used at the last check."""
        self._pause = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the checks. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="memory-guard", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_SECONDS):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - the next check can succeed
                _log.exception("the process's memory could not be checked")

    def look(self) -> None:
        """Stop a statement if the process uses too much memory."""
        used = self._used()
        running = {record.query_id: record for record in self._queries.running() if record.status == "running"}
        self._follow(running, used)
        self._pause = max(0, self._pause - 1)
        short = used + min(self._memory_bytes, self._most // _ROOM_PARTS) - self._most
        dropped = self._make_room(short) if short > 0 and running else 0
        if used - dropped <= self._most or self._pause:
            return
        grown = [one for one in self._watched.values() if not one.record.stopped and self._grew(one, used)]
        if grown:
            self._pause = _PATIENCE
            worst = min(grown, key=lambda one: one.before)
            self._stop(worst, used)

    def _follow(self, running: dict[str, QueryRecord], used: int) -> None:
        """Update the growth of each statement, and forget statements that have ended."""
        if any(one.answers for one in self._watched.values()):
            self._excuse(used - self._last)
        self._last = used
        for query_id, record in running.items():
            self._watched.setdefault(query_id, _Watched(record, used))
        for query_id, one in list(self._watched.items()):
            if one.at_stop is not None:
                one.left -= 1
            elif one.record.stopped and self._grew(one, used):  # a timeout or its user stopped it
                self._blame(one, used)
            if query_id in running:
                continue
            one.left = min(one.left, _PATIENCE)
            if not one.answers or 2 * used <= (one.at_stop or 0) + one.before:  # half of its growth is back
                del self._watched[query_id]

    def _grew(self, one: _Watched, used: int) -> bool:
        """Return whether memory grew enough during a statement that stopping it can help."""
        return used - one.before >= max(1, self._most // _LEAST_PARTS)

    def _excuse(self, grown: int) -> None:
        """Ascribe a change of memory to stopped statements: no other statement answers for it."""
        for one in self._watched.values():
            if not one.answers:
                one.before += grown

    def _blame(self, stopped: _Watched, used: int) -> None:
        """Ascribe all growth since a stopped statement began to that statement."""
        stopped.at_stop = used
        for other in self._watched.values():
            if not other.answers:
                other.before += max(0, used - max(stopped.before, other.before))

    def _stop(self, one: _Watched, used: int) -> None:
        record, grown = one.record, used - one.before
        _log.error("statement stopped, because the process uses too much memory", query_id=record.query_id, used=used)
        found = f"the server's process uses {used:,} bytes, {grown:,} more than when this statement began"
        record.cancel(over_limit("memory_bytes", self._memory_bytes, found, "join, group or sort fewer rows at once"))
        self._blame(one, used)
