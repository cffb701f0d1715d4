"""Drive an asynchronous engine from a synchronous generator, with a bounded window of requests on an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from flightllm.engines.shares import Share, Shares, lane_of
from flightllm.errors import EngineUnavailableError, check_cancelled
from flightllm.llm.engine import Completion, More, Request, pull

_POLL_SECONDS = 0.05
_JOIN_SECONDS = 10.0
_WAVE = 16
"""The most requests to pull at once."""

T = TypeVar("T")
Answer = Callable[[Sequence[Any]], Coroutine[Any, Any, Sequence[Completion]]]
Prepare = Callable[[Sequence[Request]], Sequence[Any]]


class LoopThread:
    """An asyncio event loop on its own thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run one coroutine on the loop and wait for its result.

        Raises:
            EngineUnavailableError: the loop was closed.
        """
        with self._lock:
            if self._closed:
                work.close()
                raise EngineUnavailableError("the engine is closed")
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        return running.result(timeout)

    def call(self, function: Callable[[], object]) -> bool:
        """Schedule a plain function on the loop; return whether it will run, which is False after `close`."""
        with self._lock:
            if not self._closed:
                self._loop.call_soon_threadsafe(function)
            return not self._closed

    def close(self) -> None:
        """Cancel running tasks, stop the loop and wait for its thread. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True  # work that was scheduled earlier starts first, and is then cancelled
        try:
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(_JOIN_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_SECONDS)
            if not self._thread.is_alive():
                self._loop.close()

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed


class Window:
    """One `generate` call: it pulls requests in the caller's thread, and answers them in chunks on the loop.

    `answer` takes a chunk of at most `chunk` requests and returns their completions; an exception from it ends the
    whole call. `chunk` can be a function, because an endpoint's limit becomes known only later. With `prepare`,
    `answer` takes what `prepare` makes of each request; it gets requests that were pulled together, in the caller's
    thread. At most `size` requests are pulled and not yet yielded. The requests in flight
    are bounded by the part that `shares` gives to this call; all calls of one engine use the same `shares`.
    """

    def __init__(
        self,
        loop: LoopThread,
        answer: Answer,
        size: int,
        chunk: int | Callable[[], int] = 1,
        shares: Shares | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self._loop = loop
        self._prepare = prepare
        self._answer = answer
        self._size = size
        self._most_per_chunk = chunk
        self._results: SimpleQueue[Sequence[Completion] | BaseException] = SimpleQueue()
        self._ended_now: list[Completion] = []
        """Completions of this turn of the loop."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._shares = shares or Shares(size)
        self._share: Share  # opened by `stream`, because a generator that never starts must not hold a share

    def stream(
        self, requests: Iterator[Request | None], cancelled: Callable[[], bool]
    ) -> Generator[Completion, None, None]:
        """Yield completions as they arrive; closing the generator aborts the requests in flight.

        Raises:
            CancelledError: `cancelled()` returned True.
            EngineUnavailableError: `answer` raised this error, or the engine is closed.
        """
        in_flight, more = 0, More.READY
        self._share = self._shares.open(lambda: self._results.put(()), lane_of(requests))
        try:
            while True:
                while more is More.READY and (room := self._room(self._size - in_flight)):
                    pulled, more = self._pull(requests, room, cancelled)
                    self._submit(pulled)
                    in_flight += len(pulled)
                if in_flight == 0 and more is More.ENDED:
                    return
                for completion in self._next(cancelled, patient=more is More.ENDED):
                    yield completion
                    in_flight -= 1
                more = More.ENDED if more is More.ENDED else More.READY
        finally:
            self._share.close()
            self._loop.call(self._abort)

    def _room(self, most: int) -> int:
        """Reserve room for a few requests: pulling can take long, and other calls cannot use the room meanwhile."""
        chunk = self._chunk
        return self._share.take(min(most, max(_WAVE, chunk)), chunk)

    @property
    def _chunk(self) -> int:
        chunk = self._most_per_chunk
        return min(chunk if isinstance(chunk, int) else chunk(), self._size)

    def _pull(
        self, requests: Iterator[Request | None], room: int, cancelled: Callable[[], bool]
    ) -> tuple[Sequence[Request], More]:
        """Pull up to `room` requests, and give unused room back."""
        pulled: Sequence[Request] = ()
        try:
            pulled, more = pull(requests, room, cancelled)
            return pulled, more
        finally:
            self._share.leave(room - len(pulled))

    def _submit(self, pulled: Sequence[Request]) -> None:
        try:
            prepared = self._prepare(pulled) if self._prepare and pulled else pulled
        except BaseException:
            self._share.give_back(len(pulled))
            raise
        size = self._chunk
        chunks = [prepared[start : start + size] for start in range(0, len(prepared), size)]
        closed = not self._loop.call(lambda: self._start(chunks)) if chunks else self._loop.closed
        if closed:
            self._share.give_back(len(pulled))
            raise EngineUnavailableError("the engine is closed")

    def _start(self, chunks: Sequence[Sequence[Any]]) -> None:
        """Start a task per chunk; runs on the loop, as do `_run` and `_abort`, so `_tasks` needs no lock."""
        if self._stopped:
            self._share.give_back(sum(map(len, chunks)))
            return
        for chunk in chunks:
            task = asyncio.get_running_loop().create_task(self._run(chunk))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, len(chunk)))

    def _ended(self, count: int, task: asyncio.Task[None]) -> None:
        """Give back a chunk's room however its task ended: a task can be cancelled before it starts to run."""
        self._tasks.discard(task)
        self._share.give_back(count)
        if task.cancelled():
            self._flush()
            self._results.put(EngineUnavailableError("the engine was closed while it was answering"))

    async def _run(self, chunk: Sequence[Any]) -> None:
        try:
            completions = await self._answer(chunk)
        except Exception as exc:  # noqa: BLE001 - raised in the caller's thread
            self._flush()
            self._results.put(exc)
            return
        if not self._ended_now:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ended_now += completions

    def _flush(self) -> None:
        """Hand over the completions of this turn of the loop at once: each wake of the caller's thread has a cost."""
        ended, self._ended_now = self._ended_now, []
        if ended:
            self._results.put(ended)

    def _abort(self) -> None:
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()

    def _next(self, cancelled: Callable[[], bool], *, patient: bool) -> Sequence[Completion]:
        """Wait for the next answered chunk; unless `patient`, return an empty one after `_POLL_SECONDS` or a wake."""
        while True:
            check_cancelled(cancelled)
            try:
                result = self._results.get(timeout=_POLL_SECONDS)
            except Empty:
                if patient:
                    continue
                return ()
            if isinstance(result, BaseException):
                # If the query was cancelled too, report the cancellation, not the closed engine.
                check_cancelled(cancelled)
                raise result
            return result


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
