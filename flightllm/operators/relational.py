"""Run a DataFusion frame so that it can be stopped from another thread, also before its first batch."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Generator
from typing import TypeAlias

import pyarrow as pa
from datafusion import DataFrame
from datafusion.record_batch import RecordBatch, RecordBatchStream

from flightllm.catalog.errors import mapped_error
from flightllm.errors import CancelledError

_POLL_SECONDS = 0.1
_QUICK_SECONDS = 0.02
"""A batch after one that came within this time is waited for without the loop."""

Batches: TypeAlias = Generator[pa.RecordBatch, None, None]
"""Record batches as they are made; closing it stops what makes them."""


class Loop:
    """An asyncio loop on a thread of its own; cancelling a task there stops the DataFusion work behind it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="datafusion-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the loop; work still in it is abandoned. Idempotent."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()

    def stream(self, frame: DataFrame, cancelled: Callable[[], bool]) -> Batches:
        """Yield the batches of `frame`; closing the iterator stops DataFusion.

        Raises:
            CancelledError: `cancelled()` turned true; seen within 100 ms while a batch is slow to come.
            SqlError: DataFusion failed while running, on a cast or an overflow for example.
        """
        try:
            stream = frame.execute_stream()
        except Exception as error:  # the physical plan is made here, and not every plan can be
            raise mapped_error(error) from error
        quick = False
        while True:
            started = time.monotonic()
            if cancelled():
                raise CancelledError("the query was cancelled")
            try:  # going through the loop costs more than a batch that comes at once
                batch = next(stream, None) if quick else self._next(stream, cancelled)
            except CancelledError:
                raise
            except Exception as error:  # whatever DataFusion raises is about this query
                raise mapped_error(error) from error
            if batch is None:
                return
            quick = time.monotonic() - started < _QUICK_SECONDS
            yield batch.to_pyarrow()

    def _next(self, stream: RecordBatchStream, cancelled: Callable[[], bool]) -> RecordBatch | None:
        future = asyncio.run_coroutine_threadsafe(_step(stream), self._loop)
        try:
            while True:
                if cancelled():
                    raise CancelledError("the query was cancelled")
                try:
                    return future.result(_POLL_SECONDS)
                except concurrent.futures.TimeoutError:
                    if future.done():
                        raise
        finally:
            future.cancel()


async def _step(stream: RecordBatchStream) -> RecordBatch | None:
    try:
        return await stream.__anext__()
    except StopAsyncIteration:
        return None
