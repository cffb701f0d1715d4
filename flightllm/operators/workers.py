"""Share out DataFusion's threads: a batch function blocks one thread until the engine answers."""

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager

from datafusion.plan import ExecutionPlan

from flightllm.datafusion.run import Batches
from flightllm.errors import CancelledError

_FREE_THREADS = 16
"""Threads that batch functions leave to all other work; the number of cores, if that is larger."""
_BLOCKED_THREADS = 48
_POLL_SECONDS = 0.1


class Workers:
    """The threads that batch functions of all queries can block at once. Queries get them first come, first served."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = size
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @classmethod
    def of_process(cls) -> "Workers":
        """Choose how many threads DataFusion gets, unless the environment says so, and return those that can block.

        This has an effect only before the first query of the process.
        """
        wanted = max(_FREE_THREADS, os.cpu_count() or 1) + _BLOCKED_THREADS
        threads = int(os.environ.setdefault("TOKIO_WORKER_THREADS", str(wanted)))
        return cls(max(1, threads * _BLOCKED_THREADS // wanted))

    def paced(self, batches: Batches, count: int, cancelled: Callable[[], bool]) -> Batches:
        """Yield the batches of a query that has `count` parallel parts; hold as many threads while it computes.

        A query with one part computes only while its caller waits for a batch; a client that pauses holds no thread.

        Raises:
            CancelledError: `cancelled()` turned true while all threads were taken.
        """
        with closing(batches):
            if count > 1:
                with self._taken(count, cancelled):
                    yield from batches
                return
            while True:
                with self._taken(count, cancelled):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    @contextmanager
    def _taken(self, count: int, cancelled: Callable[[], bool]) -> Iterator[None]:
        self._take(count, cancelled)
        try:
            yield
        finally:
            with self._changed:
                self._free += count
                self._changed.notify_all()

    def _take(self, count: int, cancelled: Callable[[], bool]) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                while self._queue[0] is not ticket or self._free < count:
                    if cancelled():
                        raise CancelledError("the query was cancelled before it ran")
                    self._changed.wait(_POLL_SECONDS)
                self._free -= count
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()


def parallel_parts(plan: ExecutionPlan, functions: Collection[str]) -> int:
    """Return how many parts of a plan can run one of `functions` at the same time.

    Operators pull from each other in one thread. Only merged partitions, as those of a union, run side by side.
    """
    return max(1, _parts(plan, functions, merged=plan.partition_count > 1))


def _parts(plan: ExecutionPlan, functions: Collection[str], *, merged: bool) -> int:
    text = plan.display() if merged else ""
    own = plan.partition_count if any(name in text for name in functions) else 0
    children = plan.children()
    return own + sum(_parts(c, functions, merged=merged or c.partition_count > plan.partition_count) for c in children)
