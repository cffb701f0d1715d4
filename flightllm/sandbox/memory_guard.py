"""A guard that stops a statement before the server's process uses so much memory that the kernel kills it."""

import os
import threading
from collections.abc import Callable

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
_PATIENCE = 20
"""The number of checks to wait before the guard stops another statement.

The wait is needed because the memory of a stopped statement is not free at once."""
_log = structlog.get_logger(__name__)


class MemoryGuard:
    """Checks the process's memory in its own thread; without `/proc` it does nothing.

    The guard cannot know which statement has allocated memory. So it compares, for each statement, how much the
    process has grown since the statement began. It stops the statement with the largest growth. The statement's error
    names the limit `memory_bytes`.
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
        self._before: dict[str, int] = {}
        """The bytes used at the first check of each statement, by its id."""
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
        running = [record for record in self._queries.running() if record.status == "running" and not record.stopped]
        self._before = {record.query_id: self._before.get(record.query_id, used) for record in running}
        self._pause = max(0, self._pause - 1)
        short = used + min(self._memory_bytes, self._most // _ROOM_PARTS) - self._most
        dropped = self._make_room(short) if short > 0 and running else 0
        if used - dropped <= self._most or not running or self._pause:
            return
        self._pause = _PATIENCE
        worst = max(running, key=lambda record: used - self._before[record.query_id])
        self._stop(worst, used)

    def _stop(self, record: QueryRecord, used: int) -> None:
        grown = used - self._before[record.query_id]
        _log.error("statement stopped, because the process uses too much memory", query_id=record.query_id, used=used)
        found = f"the server's process uses {used:,} bytes, {grown:,} more than when this statement began"
        record.cancel(over_limit("memory_bytes", self._memory_bytes, found, "join, group or sort fewer rows at once"))
