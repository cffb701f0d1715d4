"""Work in a thread of its own, so that the thread that waits for the work can handle Ctrl-C.

gRPC handles no signals while it waits.
"""

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as await_futures
from contextlib import suppress
from threading import Event, Thread
from typing import TypeVar

import pyarrow as pa

LOOK_SECONDS = 0.1
"""The time between two looks at the work."""
STOP_SECONDS = 0.8
"""The most time that a stopped statement has to end."""
_WAITING = 4
"""The most batches that wait for the reader."""
_T = TypeVar("_T")
Look = Callable[[], None]
"""A function that the waiting thread calls about ten times a second."""


def in_thread(work: Callable[[], _T]) -> "Future[_T]":
    """Run a function in a daemon thread of its own."""
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises the error
            done.set_exception(error)

    Thread(target=run, name="statement", daemon=True).start()
    return done


def result_of(work: Callable[[], _T], look: Look, stop: Callable[[], object]) -> _T:
    """Return the result of `work`, which runs in another thread; Ctrl-C calls `stop` and is raised again."""
    done = in_thread(work)
    try:
        while not await_futures([done], timeout=LOOK_SECONDS).done:
            look()
    except BaseException:
        await_futures([in_thread(stop)], timeout=STOP_SECONDS)
        await_futures([done], timeout=STOP_SECONDS)
        raise
    return done.result()


def batches_of(batches: Iterator[pa.RecordBatch], look: Look, stop: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Yield batches that another thread pulls; Ctrl-C, and an end before the last batch, call `stop`."""
    items: queue.Queue[pa.RecordBatch | None] = queue.Queue(_WAITING)
    left = Event()

    def put(item: pa.RecordBatch | None) -> None:
        while not left.is_set():
            with suppress(queue.Full):
                items.put(item, timeout=LOOK_SECONDS)
                return

    def pull() -> None:
        try:
            for batch in batches:
                put(batch)
                if left.is_set():
                    return
        finally:
            put(None)

    done = in_thread(pull)
    finished = False
    try:
        while True:
            try:
                batch = items.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                look()
                continue
            if batch is None:
                break
            yield batch
        finished = True
    finally:
        left.set()
        if not finished:
            await_futures([in_thread(stop)], timeout=STOP_SECONDS)
            await_futures([done], timeout=STOP_SECONDS)
    done.result()
