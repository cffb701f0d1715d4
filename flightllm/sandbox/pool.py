"""The processes of one server for statements that can take more than their share: how many, and what they take."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import structlog

from flightllm.common.admission import Place, Slots
from flightllm.common.fair_queue import Asker
from flightllm.common.limits import Sum, over_limit
from flightllm.config import LimitsConfig, StorageConfig
from flightllm.errors import BusyError, CancelledError, FlightLLMError
from flightllm.sandbox.memory import machine_memory, memory_ceiling
from flightllm.sandbox.process import Functions, Process
from flightllm.sandbox.tasks import Setup, Task

_POLL_SECONDS = 0.1
_WATCH_SECONDS = 0.05
_PART_OF_MACHINE = 2
"""All processes together may take this part of the machine's memory."""
_KEPT_GROWTH = 64 << 20
"""A process that grew by more is not used again."""
_INSTEAD = "ask for fewer or shorter values at once"
_log = structlog.get_logger(__name__)


class Isolation:
    """Runs tasks in processes of their own, at most so many at once; some wait warm. Thread-safe.

    Nothing is started before the first task, unless `warm` is called.
    """

    def __init__(self, limits: LimitsConfig, storage: StorageConfig) -> None:
        own = limits.server_memory_bytes
        memory = limits.memory_bytes if own is None else min(limits.memory_bytes, own)
        self.spilled = Sum()
        """Bytes that tasks wrote to disk for lack of memory."""
        self.limits = limits
        storage = replace(storage, object_stores=dict(storage.object_stores))  # other mappings cannot be sent
        self._setup = Setup(replace(limits, memory_bytes=memory, server_memory_bytes=None), storage)
        self._most = memory_ceiling(memory)
        self._most_together = max(self._most, machine_memory() // _PART_OF_MACHINE)
        self._changed = threading.Condition()
        self._wanted = 0
        """Processes that somebody waits for."""
        self._spares = list[Process]()
        self._busy = set[Process]()
        self.places = Slots(
            limits.isolated_statements,
            queue=limits.queued_queries,
            wait_seconds=limits.queue_seconds,
            poll_seconds=_POLL_SECONDS,
            limit="isolated_statements",
        )
        """One for each statement, which can run several tasks side by side."""
        self._failure: Exception | None = None
        self._closed = False
        self._warm = False
        self._threads = list[threading.Thread]()

    def warm(self) -> None:
        """Start the processes that wait for tasks. Does not wait."""
        with self._changed:
            self._warm = True
            self._begin()
            self._changed.notify_all()

    def close(self) -> None:
        """End all processes. Idempotent."""
        with self._changed:
            self._closed = True
            spares, self._spares = self._spares, []
            for process in self._busy:
                process.kill()
            self._changed.notify_all()
        for process in spares:
            process.close()
        for thread in self._threads:
            thread.join()

    @property
    def running(self) -> int:
        """Return how many processes run tasks now."""
        return len(self._busy)

    def place(self, user: str, cancelled: Callable[[], bool]) -> Place:
        """Wait for a place for one statement of a user's; users take turns. See `Slots.take`."""
        return self.places.take(Asker(user, ""), cancelled)

    def stream(
        self, task: Task, functions: Functions, cancelled: Callable[[], bool]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a task in a process of its own, which ends where this is closed before its end.

        Raises:
            FlightLLMError: see `Process.run`.
        """
        process = self._take(cancelled)
        try:
            with closing(process.run(task, functions, cancelled, self.spilled.add)) as rows:
                yield from rows
        finally:
            self._give_back(process)

    def _take(self, cancelled: Callable[[], bool]) -> Process:
        with self._changed:
            self._warm = True
            self._begin()
            self._wanted += 1
            self._failure = None
            self._changed.notify_all()
            try:
                process = self._next(cancelled)
            finally:
                self._wanted -= 1
                self._changed.notify_all()
            self._busy.add(process)
        try:
            process.await_ready(cancelled)
        except BaseException:
            process.kill()
            self._give_back(process)
            raise
        return process

    def _next(self, cancelled: Callable[[], bool]) -> Process:
        """Wait for a spare process; the caller holds the lock."""
        while True:
            while self._spares:
                process = self._spares.pop(0)
                if process.alive:
                    return process
                process.close()
            if self._closed or cancelled():
                raise CancelledError("the query was cancelled before it ran")
            if self._failure is not None:
                raise BusyError("the server has no room for another process; try again in a moment") from self._failure
            self._changed.wait(_POLL_SECONDS)

    def _give_back(self, process: Process) -> None:
        grown = process.grown_bytes
        with self._changed:
            self._busy.discard(process)
            keeps = not self._closed and process.alive and 0 <= grown <= _KEPT_GROWTH
            if keeps and sum(spare.ready for spare in self._spares) < self.limits.isolated_spares:
                self._spares.insert(0, process)  # it is warm, others may not be
                self._changed.notify_all()
                return
        process.close()

    def _begin(self) -> None:
        """Start the threads; the caller holds the lock."""
        if not self._threads and not self._closed:
            for work in (self._spawn, self._watch):
                thread = threading.Thread(target=work, name=f"isolation-{work.__name__}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _spawn(self) -> None:
        """Keep processes ready. They end with the thread that starts them, which is why it is one of its own."""
        while True:
            with self._changed:
                while not self._closed and not self._lacking():
                    self._changed.wait()
                if self._closed:
                    return
            try:
                process = Process(self._setup)
            except Exception as error:  # noqa: BLE001 - told to those who wait
                _log.warning("no isolated process can be started", error=str(error))
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                    self._changed.wait(1.0)
                continue
            with self._changed:
                if not self._closed:
                    self._spares.append(process)
                    self._changed.notify_all()
                    continue
            process.close()

    def _lacking(self) -> bool:
        for process in [spare for spare in self._spares if not spare.alive]:
            self._spares.remove(process)
            process.close()
        return len(self._spares) < self._wanted + (self.limits.isolated_spares if self._warm else 0)

    def _watch(self) -> None:
        """Kill what takes too much memory."""
        while True:
            with self._changed:
                while not self._closed and not self._busy:
                    self._changed.wait()
                if self._closed:
                    return
                taken = {process: process.grown_bytes for process in self._busy}
            for process, size in taken.items():
                if size > self._most:
                    found = f"the statement took {size:,} bytes of memory"
                    self._end(process, over_limit("memory_bytes", self.limits.memory_bytes, found, _INSTEAD))
            if taken and sum(taken.values()) > self._most_together:
                found = "statements together took too much memory, and this one most"
                largest = max(taken, key=taken.__getitem__)
                self._end(largest, over_limit("memory_bytes", self.limits.memory_bytes, found, _INSTEAD))
            time.sleep(_WATCH_SECONDS)

    def _end(self, process: Process, reason: FlightLLMError) -> None:
        _log.warning("isolated process killed", pid=process.pid, reason=str(reason))
        process.kill(reason)
