"""Stop the statement that lets the server's own process grow most, before the kernel ends the whole process."""

import os
import threading
from collections.abc import Callable

import structlog

from flightllm.common.limits import over_limit
from flightllm.observe.query_log import QueryLog
from flightllm.observe.query_record import QueryRecord
from flightllm.sandbox.memory import machine_memory, memory_of

_SECONDS = 0.1
"""Between two looks."""
_FREE_PARTS = 5
"""One of so many parts of the machine's memory is left to others."""
_PATIENCE = 20
"""Looks until another statement is stopped: the memory of the last one takes a while to come back."""
_log = structlog.get_logger(__name__)


class MemoryGuard:
    """Looks at the process's memory, in a thread of its own; without `/proc` there is nothing to see.

    Memory belongs to no statement, so the one counts during which it grew most: it is stopped with an error that names
    the limit that bounds a query's work.
    """

    def __init__(
        self,
        queries: QueryLog,
        memory_bytes: int,
        most: int | None = None,
        used: Callable[[], int] = lambda: memory_of(os.getpid()),
    ) -> None:
        """Take `most`, bytes from which on statements are stopped, and what tells the bytes `used`."""
        whole = machine_memory()
        self._queries = queries
        self._memory_bytes = memory_bytes
        self._most = whole - whole // _FREE_PARTS if most is None else most
        self._used = used
        self._before: dict[str, int] = {}
        """Bytes used when a statement was seen first, by its id."""
        self._pause = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look. Idempotent."""
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
            except Exception:  # noqa: BLE001 - the next look may go well
                _log.exception("a look at the process's memory failed")

    def look(self) -> None:
        """Stop a statement where the process takes too much."""
        used = self._used()
        running = [record for record in self._queries.running() if record.status == "running" and not record.stopped]
        self._before = {record.query_id: self._before.get(record.query_id, used) for record in running}
        self._pause = max(0, self._pause - 1)
        if used <= self._most or not running or self._pause:
            return
        self._pause = _PATIENCE
        worst = max(running, key=lambda record: used - self._before[record.query_id])
        self._stop(worst, used)

    def _stop(self, record: QueryRecord, used: int) -> None:
        grown = used - self._before[record.query_id]
        _log.error("statement stopped, the process takes too much memory", query_id=record.query_id, used=used)
        found = f"the server's process took {used:,} bytes, {grown:,} more than when this statement began"
        record.cancel(over_limit("memory_bytes", self._memory_bytes, found, "join, group or sort fewer rows at once"))
