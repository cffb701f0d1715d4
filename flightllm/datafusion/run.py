"""Run a DataFusion frame so that it can be stopped from another thread, also before its first batch."""

import asyncio
import concurrent.futures
import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, LogicalPlan
from datafusion.record_batch import RecordBatch, RecordBatchStream

from flightllm.common.limits import Sum
from flightllm.datafusion.errors import mapped_error
from flightllm.datafusion.kernels import running_kernels, still_running
from flightllm.errors import CancelledError

_POLL_SECONDS = 0.1
_STOP_SECONDS = 5.0
_REST_SECONDS = 60.0
"""How long a cancelled join keeps its place at most."""
_SCANS = ("Projection:", "TableScan:", "SubqueryAlias:", "Limit:")
_JOIN = re.compile(r"^ *(?:\w+ )?Join:", re.MULTILINE)
_TRUE = ("Filter: Boolean(true)", "Filter: Int64(1) = Int64(1)")
"""Conditions that tools write where there is none."""

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
"""Record batches as they are made; closing it stops what makes them."""
_Step: TypeAlias = "concurrent.futures.Future[RecordBatch | None]"


class Loop:
    """An asyncio loop on a thread of its own; cancelling a task there stops the DataFusion work behind it."""

    def __init__(self) -> None:
        self.spilled = Sum()
        """Bytes that the frames which ran here wrote to disk for lack of memory."""
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="datafusion-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the work still in the loop, and the loop. Idempotent."""
        self._closing.set()
        if self._loop.is_closed():
            return
        with suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(_stop_others(), self._loop).result(_STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def stream(self, frame: DataFrame, cancelled: Callable[[], bool], *, ahead: bool = False) -> Batches:
        """Yield the batches of `frame`, which is of no use afterwards; closing the iterator stops DataFusion.

        With `ahead` the next batch is made while one is used; otherwise nothing is computed between two pulls. Batches
        that come straight from a table are waited for in DataFusion itself, which costs less.

        A join of two batches runs to its end, which is waited for where `cancelled()` is true: whoever closes the
        iterator keeps its place until then, for a minute at most.

        Raises:
            CancelledError: `cancelled()` turned true; seen within 100 ms while a batch is slow to come.
            SqlError: DataFusion failed while running, on a cast or an overflow for example.
        """
        try:
            direct = ahead and _is_scan(frame)
            stream = frame.execute_stream()
        except Exception as error:  # the physical plan is made here, and not every plan can be
            raise mapped_error(error) from error
        step = self._step(stream)
        ended = False
        try:
            if direct:
                yield from _direct(step, stream, cancelled)
                return
            while (batch := _result(step, cancelled)) is not None:
                if ahead:
                    step = self._step(stream)
                yield batch.to_pyarrow()
                if not ahead:
                    step = self._step(stream)
            ended = True
        finally:
            self.spilled.add(spilled_bytes(frame.execution_plan()))  # the plan that runs, with its counts so far
            joins = not ended and cancelled() and has_join(frame.logical_plan())
            if not self._loop.is_closed():
                step.cancel()
            _let_go(frame, stream)
            if joins:
                self._await_rest()

    def _await_rest(self) -> None:
        """Wait until DataFusion's threads that run now have done what they cannot leave half done, up to a minute.

        They can go on for longer with work of others, so that they do not rest.
        """
        kernels, end = running_kernels(), time.monotonic() + _REST_SECONDS
        while kernels and time.monotonic() < end and not self._closing.wait(_POLL_SECONDS):
            kernels = still_running(kernels)

    def _step(self, stream: RecordBatchStream) -> _Step:
        # Through the loop, because a thread that waits inside DataFusion itself cannot be stopped.
        return asyncio.run_coroutine_threadsafe(_next(stream), self._loop)


def _let_go(frame: DataFrame, stream: RecordBatchStream) -> None:
    """Have DataFusion stop: it works for as long as there is its part of the stream, or of the plan that runs.

    The error that ends a query knows the frames of Python's that it went through, and all that these have, among it
    both. It often lives until Python looks for cycles, which can take minutes.
    """
    del stream.rbs, frame.df


def _is_scan(frame: DataFrame) -> bool:
    """Tell whether no batch can be much slower than another: nothing filters, joins or gathers rows."""
    lines = [line.strip() for line in frame.logical_plan().display_indent().splitlines()]
    return all(line.startswith(_SCANS) or line in _TRUE for line in lines)


def has_join(plan: LogicalPlan) -> bool:
    """Tell whether tables are joined anywhere in a plan, also in its subqueries."""
    return _JOIN.search(plan.display_indent()) is not None  # `inputs()` leaves subqueries out


def spilled_bytes(plan: ExecutionPlan) -> int:
    """Return how many bytes a plan that ran wrote to disk for lack of memory."""
    metrics = plan.metrics()
    own = 0 if metrics is None else metrics.spilled_bytes or 0
    return own + sum(map(spilled_bytes, plan.children()))


def _direct(first: _Step, stream: RecordBatchStream, cancelled: Callable[[], bool]) -> Batches:
    batch = _result(first, cancelled)
    while batch is not None:
        yield batch.to_pyarrow()
        if cancelled():
            raise CancelledError("the query was cancelled")
        try:
            batch = next(stream, None)
        except Exception as error:  # whatever DataFusion raises is about this query
            raise mapped_error(error) from error


async def _stop_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _next(stream: RecordBatchStream) -> RecordBatch | None:
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        return None


def _result(step: _Step, cancelled: Callable[[], bool]) -> RecordBatch | None:
    while not cancelled():
        try:
            return step.result(_POLL_SECONDS)
        except concurrent.futures.TimeoutError as error:
            if step.done():
                raise mapped_error(error) from error
        except Exception as error:  # whatever DataFusion raises is about this query
            raise mapped_error(error) from error
    raise CancelledError("the query was cancelled")
