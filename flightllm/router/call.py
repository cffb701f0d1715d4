"""One query's prompts on their way through several replicas."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from flightllm.errors import CancelledError, EngineUnavailableError, InternalError
from flightllm.llm.pull import More, pull
from flightllm.model.engine import Completion, Request
from flightllm.router.base import Prompt
from flightllm.router.local_queue import LocalQueue
from flightllm.router.waves import wave_size

if TYPE_CHECKING:
    from flightllm.router.engine import RoutedEngine
    from flightllm.router.replica import Replica

_PULLED: Final = 256
"""Prompts pulled together; answers are handed on in between."""
_POLL_SECONDS: Final = 0.05
_ENGAGE_SECONDS: Final = 0.5
_VAIN_SECONDS: Final = 0.1
"""A replica without prompts looks for some at others no more often: looking goes through all that wait there."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """A replica died under this call."""

    replica: int
    error: Exception


_Completions: TypeAlias = Generator[Completion, None, None]
_Result: TypeAlias = tuple[int, Completion] | _Lost | BaseException


class RoutedCall:
    """Pull requests in the caller's thread, route them, and have each replica answer its own in a thread.

    A replica's prompts wait in a queue here; its engine pulls them as it has room. The engine's lock guards the queues
    and what is open.
    """

    def __init__(self, engine: RoutedEngine, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> None:
        self._engine = engine
        self._requests = requests
        self._cancelled = cancelled
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._queues: dict[int, LocalQueue] = {}
        self._replicas: dict[int, Replica] = {}
        self._open: dict[int, tuple[Request, Prompt]] = {}
        """By key, what has no answer."""
        self._sent: dict[int, set[int]] = {}
        """By replica, the keys of prompts that its engine has."""
        self._threads: dict[int, threading.Thread] = {}
        self._work = threading.Condition(engine.lock)
        self._stopped = False
        self._pulled: list[Request] = []
        """Not routed yet."""
        self._first = True
        """Nothing was routed yet."""
        self._vain: dict[int, float] = {}
        """When a replica last found nothing worth taking from others."""
        self._horizon = engine.horizon
        self._engaged = time.monotonic()

    def stream(self) -> Generator[Completion, None, None]:
        """Yield completions as they arrive; leaving the generator in any way aborts what is under way.

        Raises:
            CancelledError: the query was cancelled.
            EngineUnavailableError: no replica is left.
        """
        more = More.READY
        try:
            while True:
                self._engage()
                more = self._pull(more)
                if not self._open and not self._pulled and more is More.ENDED:
                    return
                yield from self._arrived(patient=more is not More.READY)
                more = More.ENDED if more is More.ENDED else More.READY
        finally:
            self._stop()

    def _engage(self) -> None:
        """Once in a while, have replicas that came back or are new look for work that waits at others."""
        now = time.monotonic()
        if now < self._engaged + _ENGAGE_SECONDS:
            return
        self._engaged = now
        with self._work:
            self._engine.refresh()
            if any(self._queues.values()):
                for replica in self._engine.fleet.numbers:
                    if replica not in self._threads:
                        self._begin(replica)

    def _pull(self, more: More) -> More:
        """Pull some requests where there is room for them, and route them once there are enough, or no more."""
        wanted = wave_size(self._engine.replicas, self._horizon, first=self._first)
        room = min(_PULLED, min(wanted, self._horizon - len(self._open)) - len(self._pulled))
        if more is More.READY and room > 0:
            pulled, more = pull(self._requests, room, self._cancelled)
            for request in pulled:
                request.dispatch.waits = True
            self._pulled += pulled
        if self._pulled and (more is not More.READY or len(self._pulled) >= wanted or self._runs_dry()):
            self._first = False
            requests, self._pulled = self._pulled, []
            prompts = self._engine.prompts(requests)
            with self._work:
                self._open |= {p.key: (r, p) for r, p in zip(requests, prompts, strict=True)}
                self._route(prompts)
        return more

    def _runs_dry(self) -> bool:
        """Tell whether a replica that had prompts of this call, and is to get more, has none left to send."""
        with self._work:
            return any(not queue for replica, queue in self._queues.items() if self._engine.fleet.is_up(replica))

    def _route(self, prompts: list[Prompt]) -> None:
        """Queue prompts at the replicas that the policy chooses; the caller holds the lock."""
        self._engine.refresh()
        self._engine.probe()
        self._engine.router.route(prompts, time.monotonic())
        self._queue(prompts)
        self._work.notify_all()

    def _queue(self, prompts: list[Prompt]) -> None:
        """Queue prompts where they were assigned to; the caller holds the lock."""
        assigned, share = self._engine.fleet.queued(prompts)
        for one in assigned:
            replica = one.replica
            self._queues.setdefault(replica, LocalQueue()).push(one.prompt, share)
            if replica not in self._threads:
                self._begin(replica)
            self._replicas[replica].waiting += 1

    def _begin(self, replica: int) -> None:
        """Start the thread of a replica."""
        self._replicas[replica] = self._engine.replica(replica)
        name = f"replica-{replica}"
        thread = self._threads[replica] = threading.Thread(target=self._serve, args=(replica,), name=name, daemon=True)
        thread.start()

    def _arrived(self, *, patient: bool) -> Iterator[Completion]:
        """Yield the answers that are there; where `patient`, wait a while for the first."""
        waits = patient or len(self._open) + len(self._pulled) >= self._horizon
        while True:
            if self._cancelled():
                raise CancelledError("the query was cancelled")
            try:
                result = self._results.get(timeout=_POLL_SECONDS) if waits else self._results.get_nowait()
            except Empty:
                return
            waits = False
            if isinstance(result, _Lost):
                self._resend(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                key, completion = result
                if self._open.pop(key, None) is not None:
                    yield completion

    def _resend(self, lost: _Lost) -> None:
        """Route anew what a replica left without an answer.

        Raises:
            EngineUnavailableError: there is no other replica.
        """
        with self._work:
            queue = self._queues.pop(lost.replica, LocalQueue())
            sent = self._sent.pop(lost.replica, set())
            keys = sent | {prompt.key for prompt in queue.waiting()}
            replica = self._replicas.pop(lost.replica)
            replica.waiting -= len(queue)
            if not replica.engine.alive:  # else it is back already
                self._engine.lost(lost.replica, str(lost.error))
            for _ in sent:
                replica.ended(None, self._engine.costs)
            prompts = [prompt for key, (_, prompt) in self._open.items() if key in keys]
            del self._threads[lost.replica]
            for prompt in prompts:
                self._engine.fleet.withdrawn(prompt.key)
            self._route(prompts)

    def _serve(self, replica: int) -> None:
        """Have a replica answer what is queued for it, until the call ends."""
        engine = self._replicas[replica].engine
        try:
            while self._has_work(replica):
                answers = cast("_Completions", engine.generate(self._feed(replica), self._is_stopped))
                with closing(answers) as completions:
                    for completion in completions:
                        self._answered(replica, completion)
        except CancelledError:
            pass  # the call's own thread tells
        except EngineUnavailableError as error:
            self._results.put(_Lost(replica, error))
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits, and raised there
            self._results.put(error)

    def _has_work(self, replica: int) -> bool:
        """Wait until a prompt is queued for a replica, or none ever will be."""
        with self._work:
            while not self._stopped and not self._queues.get(replica):
                if self._steal(replica):
                    break
                self._work.wait(_VAIN_SECONDS)
            return not self._stopped

    def _feed(self, replica: int) -> Iterator[Request | None]:
        """Yield what is queued for a replica, None while it has prompts but no further ones; end where it has none."""
        while True:
            with self._work:
                if self._stopped:
                    return
                queue = self._queues.get(replica)
                if not queue:
                    self._steal(replica)
                    queue = self._queues.get(replica)
                prompt = queue.pop() if queue else None
                if prompt is not None:
                    self._replicas[replica].waiting -= 1
                    self._replicas[replica].sent()
                    self._sent.setdefault(replica, set()).add(prompt.key)
                    request = self._open[prompt.key][0]
                    request.dispatch.waits = False
                elif not self._sent.get(replica):
                    return
            yield None if prompt is None else replace(request, id=prompt.key)

    def _steal(self, replica: int) -> bool:
        """Take work from replicas that have more; the caller holds the lock."""
        now = time.monotonic()
        if self._stopped or not self._replicas[replica].up or now - self._vain.get(replica, 0.0) < _VAIN_SECONDS:
            return False
        others = {number: queue for number, queue in self._queues.items() if number != replica and queue}
        if not others:
            return False
        before = {number: len(queue) for number, queue in others.items()}
        try:
            stolen = self._engine.router.steal(replica, others, now)
        finally:
            for number, count in before.items():
                self._replicas[number].waiting -= count - len(others[number])
        self._queue(stolen)
        if not stolen:
            self._vain[replica] = now
        return bool(stolen)

    def _answered(self, replica: int, completion: Completion) -> None:
        """Take in an answer; runs in the replica's thread."""
        key = completion.id
        with self._engine.lock:
            if self._stopped:
                return
            if key not in self._sent.get(replica, ()):
                raise InternalError(f"{self._replicas[replica].name} answered what it was not asked")
            self._sent[replica].discard(key)
            request, _ = self._open[key]
            self._replicas[replica].ended(completion, self._engine.costs)
            if key in self._engine.fleet.open:
                self._engine.fleet.finished(key, completion.completion_tokens if completion.text is not None else None)
        self._results.put((key, replace(completion, id=request.id)))

    def _is_stopped(self) -> bool:
        return self._stopped

    def _stop(self) -> None:
        """End the threads of the replicas, and count what is left as not to be answered."""
        with self._work:
            self._stopped = True
            for number, queue in self._queues.items():
                self._replicas[number].waiting -= len(queue)
            for number, keys in self._sent.items():
                for _ in keys:
                    self._replicas[number].ended(None, self._engine.costs)
            self._sent.clear()
            for key in self._open:
                self._engine.fleet.withdrawn(key)
            self._work.notify_all()
