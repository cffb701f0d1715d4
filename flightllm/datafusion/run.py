"""Runs DataFusion frames so that another thread can stop them, also before the first batch."""

import asyncio
import concurrent.futures
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext, suppress
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, LogicalPlan, SessionContext
from datafusion.record_batch import RecordBatch, RecordBatchStream

from flightllm.common.limits import Sum
from flightllm.datafusion.contexts import unfolded
from flightllm.datafusion.errors import mapped_error
from flightllm.datafusion.kernels import running_kernels, still_running
from flightllm.datafusion.scans import limited
from flightllm.errors import CancelledError, check_cancelled

_T = TypeVar("_T")
STATISTICS: Final = "datafusion.execution.collect_statistics"
_FAILURES: Final = (
    "Only intervals with the same data type are comparable",
    "Interval data types must be compatible",
    "Selectivity is out of limit",
)
"""Parts of errors from estimates: the difference of two dates is a Duration there, and a cast can pass the bounds."""
_POLL_SECONDS = 0.1
_STOP_SECONDS = 5.0
_REST_SECONDS = 60.0
"""The longest time that a cancelled join keeps its place."""
_SCANS = ("Projection:", "TableScan:", "SubqueryAlias:", "Limit:")
_GROUPING_SETS = re.compile(r"GROUPING SETS|CUBE|ROLLUP")
_JOIN = re.compile(r"^ *(?:\w+ )?Join:", re.MULTILINE)
_CONSTANT: Final = "'pyarrow.lib.BooleanScalar' and"
"""A part of the error for a scan whose conditions begin with a constant: DataFusion joins them by Python's `&`."""
_OF_ATTACHED = re.compile(r"TableScan: [^\s.]+\.[^\s.]+\.")
"""A scan of a table whose schema has a dot, as that of an attached database; few other names look so."""
_TRUE = ("Filter: Boolean(true)", "Filter: Int64(1) = Int64(1)")
"""Conditions that tools write for "no condition"."""

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
"""Record batches, made as they are pulled. Closing the generator stops the work."""
_Step: TypeAlias = "concurrent.futures.Future[RecordBatch | None]"


class Loop:
    """An asyncio loop in its own thread. Cancelling a task of the loop stops the DataFusion work behind the task."""

    def __init__(self) -> None:
        self.spilled = Sum()
        """The bytes that frames in this loop spilled to disk for lack of memory."""
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="datafusion-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the loop and its remaining work. Idempotent."""
        self._closing.set()
        if self._loop.is_closed():
            return
        with suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(_stop_others(), self._loop).result(_STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def stream(
        self,
        frame: DataFrame,
        cancelled: Callable[[], bool],
        *,
        ahead: bool = False,
        context: SessionContext | None = None,
    ) -> Batches:
        """Yield the batches of `frame`, which cannot be used again; closing the generator stops DataFusion.

        With `ahead`, the next batch is computed while the caller uses one; otherwise, each pull starts the next batch.
        With `ahead`, batches of a plain table scan are pulled inside DataFusion itself, which costs less.

        With the frame's own `context`, a frame on whose statistics DataFusion fails runs without statistics.

        DataFusion runs a join of two batches to its end. If `cancelled()` is true, closing the generator therefore
        waits until DataFusion's threads rest, for a minute at most. So the caller keeps its place until the work has
        ended.

        Raises:
            CancelledError: `cancelled()` turned true; noticed within 100 ms while a batch is slow.
            SqlError: DataFusion failed while running, for example on a cast or an overflow.
        """
        try:
            direct = ahead and _is_scan(frame)
            frame, stream = with_plan(frame, context, lambda planned: (planned, planned.execute_stream()))
        except Exception as error:  # this makes the physical plan, which fails for some logical plans
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
            if spilled := spilled_bytes(frame.execution_plan()):  # the plan that runs, with its counts so far
                self.spilled.add(spilled)
            joins = not ended and cancelled() and has_join(frame.logical_plan())
            if not self._loop.is_closed():
                step.cancel()
            _let_go(frame, stream)
            if joins:
                self._await_rest()

    def _await_rest(self) -> None:
        """Wait until each DataFusion thread that runs now has rested once, for a minute at most.

        A thread that goes on with other queries' work does not rest, hence the limit.
        """
        kernels, end = running_kernels(), time.monotonic() + _REST_SECONDS
        while kernels and time.monotonic() < end and not self._closing.wait(_POLL_SECONDS):
            kernels = still_running(kernels)

    def _step(self, stream: RecordBatchStream) -> _Step:
        if self._loop.is_closed():
            raise CancelledError("the database was closed")
        # Through the loop, because a thread that waits inside DataFusion itself cannot be stopped.
        return asyncio.run_coroutine_threadsafe(_next(stream), self._loop)


def _let_go(frame: DataFrame, stream: RecordBatchStream) -> None:
    """Drop DataFusion's stream and plan: DataFusion works as long as either exists.

    The error that ends a query holds Python's stack frames, and these hold both objects. The error often lives until
    Python's cycle collector runs, which can take minutes.
    """
    del stream.rbs, frame.df


def _is_scan(frame: DataFrame) -> bool:
    """Return whether all batches take about as long, because the plan does not filter, join or collect rows."""
    lines = [line.strip() for line in frame.logical_plan().display_indent().splitlines()]
    return all(line.startswith(_SCANS) or line in _TRUE for line in lines)


def has_join(plan: LogicalPlan) -> bool:
    """Return whether a plan joins tables, also in its subqueries."""
    return _JOIN.search(plan.display_indent()) is not None  # `inputs()` leaves subqueries out


def has_grouping_sets(plan: LogicalPlan) -> bool:
    """Return whether a plan groups rows by several sets of columns; the names of columns can mislead it."""
    return _GROUPING_SETS.search(plan.display_indent()) is not None


def with_plan(frame: DataFrame, context: SessionContext | None, use: Callable[[DataFrame], _T]) -> _T:
    """Return what `use` makes of a frame, which plans it physically; if an estimate fails, plan without statistics.

    The frame's own `context` then has no statistics for later frames, either. Without a context, the error passes
    through, as other errors do.
    """
    try:
        of_attached = _OF_ATTACHED.search(frame.logical_plan().display_indent())
        with limited(frame) if of_attached else nullcontext():
            return use(frame)
    except Exception as error:
        if context is not None and _CONSTANT in str(error):
            return use(unfolded(context, frame, ("push_down_filter",)))
        if context is None or not any(failure in str(error) for failure in _FAILURES):
            raise
    context.sql(f"SET {STATISTICS} = false")
    return use(context.create_dataframe_from_logical_plan(frame.logical_plan()))


def spilled_bytes(plan: ExecutionPlan) -> int:
    """Return the bytes that a plan's run spilled to disk for lack of memory."""
    metrics = plan.metrics()
    own = 0 if metrics is None else metrics.spilled_bytes or 0
    return own + sum(map(spilled_bytes, plan.children()))


def _direct(first: _Step, stream: RecordBatchStream, cancelled: Callable[[], bool]) -> Batches:
    batch = _result(first, cancelled)
    while batch is not None:
        yield batch.to_pyarrow()
        check_cancelled(cancelled)
        try:
            batch = next(stream, None)
        except Exception as error:  # each exception of DataFusion is about this query
            raise mapped_error(error) from error


def until_cancelled(batches: Iterable[pa.RecordBatch], cancelled: Callable[[], bool]) -> Batches:
    """Yield batches, and check before each of them that the query goes on.

    Raises:
        CancelledError: `cancelled()` turned true.
    """
    for batch in batches:
        check_cancelled(cancelled)
        yield batch


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
        except Exception as error:  # each exception of DataFusion is about this query
            raise mapped_error(error) from error
    raise CancelledError("the query was cancelled")
