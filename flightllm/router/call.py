"""Answer the prompts of one query on several replicas."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final, Self, TypeAlias, cast

from flightllm.errors import CancelledError, EngineUnavailableError, InternalError, check_cancelled
from flightllm.llm.engine import Completion, More, Request, pull
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica import Replica
from flightllm.router.replica_queue import Lane
from flightllm.router.replicas import Replicas
from flightllm.router.waves import wave_size

_PULLED: Final = 256
"""The most prompts to pull before the next answers are yielded."""
_POLL_SECONDS: Final = 0.05
_ENGAGE_SECONDS: Final = 0.5
_VAIN_SECONDS: Final = 0.1
"""The pause between two attempts of a replica to steal prompts: an attempt scans all waiting prompts."""


@dataclass(frozen=True, slots=True)
class _ReplicaFailure:
    """The death of a replica during this call."""

    replica: int
    error: Exception


class _Feed:
    """The requests of one call for one replica, which wait in a lane of the replica's queue."""

    def __init__(self, lane: Lane, requests: Iterator[Request | None]) -> None:
        self.lane = lane
        self._requests = requests

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Request | None:
        return next(self._requests)


_Completions: TypeAlias = Generator[Completion, None, None]
_Result: TypeAlias = tuple[int, Completion] | _ReplicaFailure | BaseException


class RoutedCall:
    """One call of `RoutedEngine.generate`: it pulls and routes requests in the caller's thread.

    Each replica answers its prompts in a thread. A replica's prompts wait in a lane of the replica's queue until the
    replica's engine has a place for them. All calls share the queue. The routed engine's lock guards lanes and `_open`.
    """

    def __init__(self, replicas: Replicas, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> None:
        self._cluster = replicas
        self._requests = requests
        self._cancelled = cancelled
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._lanes: dict[int, Lane] = {}
        self._assigned = set[int]()
        """The replicas that had prompts of this call."""
        self._replicas: dict[int, Replica] = {}
        self._open: dict[int, tuple[Request, RoutedPrompt]] = {}
        """The prompts without an answer, by key."""
        self._sent: dict[int, set[int]] = {}
        """The keys of the prompts that a replica's engine has pulled and not answered, by replica."""
        self._threads: dict[int, threading.Thread] = {}
        self._work = threading.Condition(replicas.lock)
        self._stopped = False
        self._user = ""
        self._priorities = set[int]()
        """The priority numbers of all prompts so far."""
        self._pulled: list[Request] = []
        """Requests that were pulled and are not routed yet."""
        self._first = True
        """Whether no prompt was routed yet."""
        self._is_whole = False
        """Whether all prompts are known."""
        self._vain: dict[int, float] = {}
        """The time of each replica's last attempt to steal that found no prompt."""
        self._horizon = replicas.horizon
        self._engaged = time.monotonic()

    def stream(self) -> Generator[Completion, None, None]:
        """Yield completions as they arrive; closing the generator aborts the prompts in flight.

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
        """Start threads for new and returned replicas, so that they steal waiting prompts; every `_ENGAGE_SECONDS`."""
        now = time.monotonic()
        if now < self._engaged + _ENGAGE_SECONDS:
            return
        self._engaged = now
        with self._work:
            self._cluster.refresh()
            if any(self._lanes.values()):
                for replica in self._cluster.fleet.numbers:
                    if replica not in self._threads:
                        self._begin(replica)

    def _pull(self, more: More) -> More:
        """Pull requests while there is room, and route them once a wave is full or no more can be pulled now."""
        wanted = wave_size(self._cluster.replicas, self._horizon, first=self._first)
        room = min(_PULLED, min(wanted, self._horizon - len(self._open)) - len(self._pulled))
        if more is More.READY and room > 0:
            pulled, more = pull(self._requests, room, self._cancelled)
            for request in pulled:
                request.dispatch.waits = True
            self._pulled += pulled
        if self._pulled and (more is not More.READY or len(self._pulled) >= wanted or self._runs_dry()):
            self._first = False
            self._user = self._pulled[0].user
            requests, self._pulled = self._pulled, []
            prompts = self._cluster.prompts(requests)
            with self._work:
                self._open |= {p.key: (r, p) for r, p in zip(requests, prompts, strict=True)}
                self._route(prompts)
                if more is More.ENDED:
                    self._is_whole = True
                    self._note_urgency()
        return more

    def _note_urgency(self) -> None:
        """Note how urgent this query is, if all of its prompts are known; the caller holds the lock.

        The first prompts of a long query have another priority than the rest.
        """
        if self._is_whole and len(self._priorities) == 1:
            self._cluster.arrivals.note(*self._priorities)

    def _runs_dry(self) -> bool:
        """Return whether the queue of a replica that is up has run empty, although it had prompts of this call."""
        with self._work:
            fleet = self._cluster.fleet
            return any(not self._lanes[replica] for replica in self._assigned if fleet.is_up(replica))

    def _route(self, prompts: list[RoutedPrompt]) -> None:
        """Queue prompts at the replicas that the policy chooses; the caller holds the lock."""
        self._cluster.refresh()
        self._cluster.probe()
        self._cluster.router.route(prompts, time.monotonic())
        self._queue(prompts)
        self._work.notify_all()

    def _queue(self, prompts: list[RoutedPrompt]) -> None:
        """Queue prompts at the replicas to which they were assigned; the caller holds the lock."""
        for replica, run in self._cluster.fleet.runs(prompts).items():
            if replica not in self._threads:
                self._begin(replica)
            self._lanes[replica].push(run)
            self._assigned.add(replica)
            self._priorities.update(prompt.priority for prompt in run)

    def _begin(self, replica: int) -> None:
        """Open a lane in a replica's queue, and start the replica's thread; the caller holds the lock."""
        found = self._replicas[replica] = self._cluster.replica(replica)
        self._lanes[replica] = found.queue.open(self._user)
        name = f"replica-{replica}"
        thread = self._threads[replica] = threading.Thread(target=self._serve, args=(replica,), name=name, daemon=True)
        thread.start()

    def _arrived(self, *, patient: bool) -> Iterator[Completion]:
        """Yield the available answers; with `patient`, or at the horizon, wait up to `_POLL_SECONDS` for the first."""
        waits = patient or len(self._open) + len(self._pulled) >= self._horizon
        while True:
            check_cancelled(self._cancelled)
            try:
                result = self._results.get(timeout=_POLL_SECONDS) if waits else self._results.get_nowait()
            except Empty:
                return
            waits = False
            if isinstance(result, _ReplicaFailure):
                self._resend(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                key, completion = result
                if self._open.pop(key, None) is not None:
                    yield completion

    def _resend(self, lost: _ReplicaFailure) -> None:
        """Route the prompts again that a dead replica left unanswered.

        Raises:
            EngineUnavailableError: no other replica is up.
        """
        with self._work:
            lane = self._lanes.pop(lost.replica)
            self._assigned.discard(lost.replica)
            sent = self._sent.pop(lost.replica, set())
            keys = sent | {prompt.key for prompt in lane.waiting()}
            lane.close()
            replica = self._replicas.pop(lost.replica)
            if not replica.engine.alive:  # otherwise it has already been reopened
                self._cluster.lost(lost.replica, str(lost.error))
            for _ in sent:
                replica.ended(None, self._cluster.costs)
            prompts = [prompt for key, (_, prompt) in self._open.items() if key in keys]
            del self._threads[lost.replica]
            for prompt in prompts:
                self._cluster.fleet.withdrawn(prompt.key)
            self._route(prompts)

    def _serve(self, replica: int) -> None:
        """Have a replica answer the prompts in its queue, until the call ends."""
        engine = self._replicas[replica].engine
        try:
            while self._has_work(replica):
                feed = _Feed(self._lanes[replica], self._feed(replica))
                answers = cast("_Completions", engine.generate(feed, self._is_stopped))
                with closing(answers) as completions:
                    for completion in completions:
                        self._answered(replica, completion)
        except CancelledError:
            pass  # the caller's thread raises this error
        except EngineUnavailableError as error:
            self._results.put(_ReplicaFailure(replica, error))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            self._results.put(error)

    def _has_work(self, replica: int) -> bool:
        """Wait until a prompt is queued for a replica; return False once the call has ended."""
        with self._work:
            while not self._stopped and not self._lanes[replica]:
                if self._steal(replica):
                    break
                self._work.wait(_VAIN_SECONDS)
            return not self._stopped

    def _feed(self, replica: int) -> Iterator[Request | None]:
        """Yield the requests in a replica's queue, and None while the queue is empty; end when all are answered."""
        while True:
            with self._work:
                if self._stopped:
                    return
                lane = self._lanes[replica]
                if not lane:
                    self._steal(replica)
                prompt = lane.pop()
                if prompt is not None:
                    found = self._replicas[replica]
                    found.sent()
                    found.queue.pace.sent(prompt.priority, self._cluster.fleet.answer_tokens(prompt))
                    self._sent.setdefault(replica, set()).add(prompt.key)
                    request = self._open[prompt.key][0]
                    request.dispatch.waits = False
                elif not self._sent.get(replica):
                    return
            yield None if prompt is None else replace(request, id=prompt.key)

    def _steal(self, replica: int) -> bool:
        """Move prompts from other replicas' queues to this replica's queue; the caller holds the lock.

        Return whether any prompt was moved.
        """
        now = time.monotonic()
        if self._stopped or not self._replicas[replica].up or now - self._vain.get(replica, 0.0) < _VAIN_SECONDS:
            return False
        others = {number: lane for number, lane in self._lanes.items() if number != replica and lane}
        if not others:
            return False
        stolen = self._cluster.router.steal(replica, others, now)
        self._queue(stolen)
        if not stolen:
            self._vain[replica] = now
        return bool(stolen)

    def _answered(self, replica: int, completion: Completion) -> None:
        """Record an answer and pass it to the caller's thread; runs in the replica's thread."""
        key = completion.id
        with self._cluster.lock:
            if self._stopped:
                return
            if key not in self._sent.get(replica, ()):
                raise InternalError(f"{self._replicas[replica].name} answered a prompt that it was not given")
            self._sent[replica].discard(key)
            request, _ = self._open[key]
            self._replicas[replica].ended(completion, self._cluster.costs)
            if key in self._cluster.fleet.open:
                self._cluster.fleet.finished(key, completion.completion_tokens if completion.text is not None else None)
        self._results.put((key, replace(completion, id=request.id)))

    def _is_stopped(self) -> bool:
        return self._stopped

    def _stop(self) -> None:
        """End the replicas' threads, and withdraw all prompts that have no answer."""
        with self._work:
            self._stopped = True
            self._note_urgency()
            for lane in self._lanes.values():
                lane.close()
            for number, keys in self._sent.items():
                for _ in keys:
                    self._replicas[number].ended(None, self._cluster.costs)
            self._sent.clear()
            for key in self._open:
                self._cluster.fleet.withdrawn(key)
            self._work.notify_all()
