"""The sandbox processes of one server: their number, and their memory."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import structlog

from flightllm.common.admission import AdmissionControl, AdmissionSlot
from flightllm.common.fair_queue import Requester
from flightllm.common.limits import Sum, over_limit
from flightllm.config import LimitsConfig, StorageConfig
from flightllm.errors import BusyError, CancelledError, FlightLLMError
from flightllm.sandbox.memory import machine_memory, memory_ceiling
from flightllm.sandbox.process import Functions, Process
from flightllm.sandbox.tasks import Setup, Task

_POLL_SECONDS = 0.1
_WATCH_SECONDS = 0.05
_PART_OF_MACHINE = 2
"""All processes together can take one of this many parts of the machine's memory."""
_KEPT_GROWTH = 64 << 20
"""A process whose memory grew by more than this is not used again."""
_INSTEAD = "ask for fewer or shorter values at once"
_log = structlog.get_logger(__name__)


class Isolation:
    """Runs tasks in sandbox processes; some wait warm, and their number is limited. Thread-safe.

    Before `warm` is called, a process starts only if a task needs one. It then waits for the next task.
    """

    def __init__(self, limits: LimitsConfig, storage: StorageConfig) -> None:
        own = limits.server_memory_bytes
        memory = limits.memory_bytes if own is None else min(limits.memory_bytes, own)
        self.spilled = Sum()
        """The bytes that tasks spilled to disk for lack of memory."""
        self.limits = limits
        storage = replace(
            storage, object_stores=dict(storage.object_stores)
        )  # a plain dict, because other mappings cannot be pickled
        self._setup = Setup(replace(limits, memory_bytes=memory, server_memory_bytes=None), storage)
        self._most = memory_ceiling(memory)
        self._most_together = max(self._most, machine_memory() // _PART_OF_MACHINE)
        self._changed = threading.Condition()
        self._wanted = 0
        """The number of tasks that wait for a process."""
        self._spares = list[Process]()
        self._busy = set[Process]()
        self.places = AdmissionControl(
            limits.isolated_statements,
            queue=limits.queued_queries,
            wait_seconds=limits.queue_seconds,
            poll_seconds=_POLL_SECONDS,
            limit="isolated_statements",
        )
        """One place for each statement, which can run several tasks at the same time."""
        self._failure: Exception | None = None
        self._closed = False
        self._warm = False
        """Whether spare processes start before a task needs them, as in a server."""
        self._threads = list[threading.Thread]()

    def warm(self) -> None:
        """Start the spare processes, without waiting for them."""
        with self._changed:
            self._warm = True
            self._begin()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop all processes. Idempotent."""
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
        """Return the number of processes that run tasks now."""
        return len(self._busy)

    def admit(self, user: str, cancelled: Callable[[], bool]) -> AdmissionSlot:
        """Wait for a place for one of a user's statements; users take turns. See `AdmissionControl.take`."""
        return self.places.take(Requester(user, ""), cancelled)

    def stream(
        self, task: Task, functions: Functions, cancelled: Callable[[], bool]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a task from a sandbox process; closing the generator early kills the process.

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
        """Wait for a spare process. The caller holds the lock."""
        while True:
            while self._spares:
                process = self._spares.pop(0)
                if process.alive:
                    return process
                process.close()
            if self._closed or cancelled():
                raise CancelledError("the query was cancelled before it ran")
            if self._failure is not None:
                raise BusyError("the server cannot start another process now; try again in a moment") from self._failure
            self._changed.wait(_POLL_SECONDS)

    def _give_back(self, process: Process) -> None:
        grown = process.grown_bytes
        with self._changed:
            self._busy.discard(process)
            keeps = not self._closed and process.alive and 0 <= grown <= _KEPT_GROWTH
            if keeps and sum(spare.ready for spare in self._spares) < self.limits.isolated_spares:
                self._spares.insert(0, process)  # first, because it is warm and others can still be starting
                self._changed.notify_all()
                return
        process.close()

    def _begin(self) -> None:
        """Start the threads. The caller holds the lock."""
        if not self._threads and not self._closed:
            for work in (self._spawn, self._watch):
                thread = threading.Thread(target=work, name=f"isolation-{work.__name__}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _spawn(self) -> None:
        """Keep spare processes ready. They end with the thread that starts them, so this needs its own thread."""
        while True:
            with self._changed:
                while not self._closed and not self._lacking():
                    self._changed.wait()
                if self._closed:
                    return
            try:
                process = Process(self._setup)
            except Exception as error:  # noqa: BLE001 - the waiting tasks raise it
                _log.warning("a sandbox process cannot be started", error=str(error))
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
        """Kill processes that take too much memory."""
        while True:
            with self._changed:
                while not self._closed and not self._busy:
                    self._changed.wait()
                if self._closed:
                    return
                taken = {process: process.grown_bytes for process in self._busy}
            for process, size in taken.items():
                if size > self._most:
                    found = f"the statement uses {size:,} bytes of memory"
                    self._end(process, over_limit("memory_bytes", self.limits.memory_bytes, found, _INSTEAD))
            if taken and sum(taken.values()) > self._most_together:
                found = "all statements together use too much memory, and this one uses most"
                largest = max(taken, key=taken.__getitem__)
                self._end(largest, over_limit("memory_bytes", self.limits.memory_bytes, found, _INSTEAD))
            time.sleep(_WATCH_SECONDS)

    def _end(self, process: Process, reason: FlightLLMError) -> None:
        _log.warning("sandbox process killed", pid=process.pid, reason=str(reason))
        process.kill(reason)
