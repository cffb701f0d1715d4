"""Simulate replicas that answer routed prompts, with continuous batching, block caches and the router's own classes.

Time moves from event to event: prompts arrive, and replicas end steps. The time of a step depends on the tokens that it
computes. The simulation follows each prompt, its position in the queues and each cached block.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.engines.prefix import STEP_TOKENS, PrefixSimulator, SimulatedRequest, chained
from flightllm.llm.cost import Costs, Rates, Work
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import Router
from flightllm.router.fleet import WINDOW_SECONDS, Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import ReplicaQueue
from flightllm.router.tree import TOKEN_BYTES
from flightllm.router.waves import wave_size

_LEARN_CALLS: Final = 32
"""The number of a replica's answers between two updates of the cost estimates."""


@dataclass(frozen=True, slots=True)
class StepRates:
    """The seconds of an engine's step: `base` plus the seconds of its tokens, and at least `least`."""

    base: float
    computed: float
    """The seconds per computed prompt token."""
    decoding: float
    """The seconds per request that decodes its next token."""
    least: float = 0.0

    def seconds(self, computed: int, decoding: int) -> float:
        """Return the seconds of a step."""
        return max(self.least, self.base + self.computed * computed + self.decoding * decoding)

    def rates(self, at_once: float) -> Rates:
        """Return the seconds by kind of work if `at_once` requests share each step."""
        return Rates(0.0, self.computed, 0.0, max(self.least, self.base) / at_once + self.decoding)

    def added(self) -> Rates:
        """Return the seconds that work adds to full steps. Steps are full while many prompts wait."""
        share = self.base / STEP_TOKENS
        return Rates(0.0, self.computed + share, 0.0, self.decoding + share)


ENGINES: Final = {
    # Preble's fit of SGLang's steps (its model_equations.py): 22 ms up to 192 tokens, 0.115 ms for each from 384 on,
    # # and 1.86e-4 ms for a token of context. A request has some 1,000 tokens of context.
    "7b-a6000": StepRates(base=0.0, computed=0.115e-3, decoding=0.3e-3, least=22e-3),
    # `python -m bench.engine_steps`: vLLM on one core, 28 million parameters (bench-8x512).
    "28m-cpu": StepRates(base=11.35e-3, computed=0.384e-3, decoding=0.35e-3),
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A prompt that arrives at the second `at`.

    Its answer has `answer_tokens` tokens; the router knows only the limit `most_tokens`.
    """

    at: float
    tokens: bytes
    answer_tokens: int
    most_tokens: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal replicas.

    With `learned`, the router predicts times from the times of answers, else from `rates` or from the seconds of
    steps.
    """

    replicas: int
    cache: PrefixCache
    steps: StepRates = ENGINES["7b-a6000"]
    at_once: int = 64
    step_tokens: int = STEP_TOKENS
    learned: bool = False
    rates: Rates | None = None
    window_seconds: float = WINDOW_SECONDS


@dataclass(slots=True)
class Outcome:
    """The result of one run; times are in seconds."""

    keys: list[int] = field(default_factory=list)
    """The prompts in the order of their answers."""
    latencies: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    expected_tokens: int = 0
    """The prompt tokens that the router assumed to be cached when it chose."""
    stolen: int = 0
    first: float = 0.0
    last: float = 0.0
    deciding: float = 0.0
    """The CPU seconds spent in the router and the fleet."""

    @property
    def hit_ratio(self) -> float:
        """Return the share of the prompts' tokens that were cached, 0 to 1."""
        return self.cached_tokens / max(1, self.prompt_tokens)

    @property
    def imbalance(self) -> float:
        """Return the work of the busiest replica divided by the mean."""
        return max(self.busy) / max(1e-12, sum(self.busy) / len(self.busy))

    def figures(self) -> dict[str, float]:
        """Return the figures to report."""
        latencies: NDArray[np.float64] = np.array(self.latencies)
        return {
            "prompts": len(self.keys),
            "hit_ratio": self.hit_ratio,
            "expected_hit_ratio": self.expected_tokens / max(1, self.prompt_tokens),
            "mean": float(latencies.mean()),
            "p50": float(np.quantile(latencies, 0.5)),
            "p99": float(np.quantile(latencies, 0.99)),
            "makespan": self.last - self.first,
            "busy": sum(self.busy) / (len(self.busy) * max(1e-12, self.last - self.first)),
            "imbalance": self.imbalance,
            "stolen": self.stolen,
            "decisions_per_second": len(self.keys) / max(1e-9, self.deciding),
        }


class _Replica:
    """One engine, and the prompts that wait for it."""

    def __init__(self, number: int, cluster: Cluster, fleet: Fleet) -> None:
        self.number = number
        self.engine = PrefixSimulator(cluster.cache, cluster.at_once, cluster.step_tokens)
        self.queue = ReplicaQueue(fleet.held_share).open()
        self.ending: list[SimulatedRequest] | None = None
        """The work that the current step finishes; None between steps."""
        self.busy = 0.0
        self.work = Work()
        self.worked = 0.0
        """The work and seconds since the last update of the cost estimates."""


class _Simulation:
    def __init__(self, cluster: Cluster, create: Callable[[Fleet], Router]) -> None:
        self._cluster = cluster
        rates = cluster.rates or cluster.steps.rates(cluster.at_once / 2)
        self._fleet = Fleet(cluster.cache.block_tokens, rates, cluster.window_seconds)
        for _ in range(cluster.replicas):
            self._fleet.add(cluster.cache.blocks)
        self._router = create(self._fleet)
        self._replicas = [_Replica(number, cluster, self._fleet) for number in range(cluster.replicas)]
        self._queues = {one.number: one.queue for one in self._replicas}
        self._events: list[tuple[float, int, _Replica]] = []
        self._order = 0
        self._waiting = 0
        self._idle = dict.fromkeys(range(cluster.replicas))
        self._arrived: dict[int, Arrival] = {}
        self._costs = Costs()
        self._outcome = Outcome()

    def run(self, arrivals: Iterable[Arrival]) -> Outcome:
        key = 0
        batches = _together(arrivals)
        batch = next(batches, None)
        self._outcome.first = batch[0].at if batch else 0.0
        while batch or self._events:
            if batch and (not self._events or batch[0].at <= self._events[0][0]):
                self._arrive(key, batch, batch[0].at)
                key += len(batch)
                batch = next(batches, None)
            else:
                now, _, replica = heapq.heappop(self._events)
                self._end(replica, now)
        self._outcome.busy = [replica.busy for replica in self._replicas]
        return self._outcome

    def work_off(self, backlog: Iterator[Arrival], horizon: int) -> Outcome:
        key, now, ended = 0, 0.0, False
        pulled: list[Arrival] = []
        while True:
            wanted = wave_size(len(self._replicas), horizon, first=not key)
            room = max(0, min(wanted, horizon - len(self._arrived)) - len(pulled))
            more = list(islice(backlog, room))
            ended = ended or len(more) < room
            pulled += more
            if pulled and (ended or len(pulled) >= wanted or self._runs_dry()):
                self._arrive(key, pulled, now)
                key, pulled = key + len(pulled), []
            elif self._events:
                now, _, replica = heapq.heappop(self._events)
                self._end(replica, now)
            else:
                self._outcome.busy = [replica.busy for replica in self._replicas]
                return self._outcome

    def _runs_dry(self) -> bool:
        """Return whether a replica that has worked has an empty queue."""
        return any(replica.busy and not replica.queue for replica in self._replicas)

    def _arrive(self, key: int, batch: list[Arrival], now: float) -> None:
        prompts = []
        for number, one in enumerate(batch, key):
            self._arrived[number] = one
            prompts.append(
                RoutedPrompt(number, one.tokens, one.most_tokens or one.answer_tokens, priority=one.priority)
            )
        started = time.thread_time()
        chosen = self._router.route(prompts, now)
        self._outcome.deciding += time.thread_time() - started
        self._push(prompts)
        for replica in dict.fromkeys(chosen):
            self._start(self._replicas[replica], now)
        for idle in tuple(self._idle):
            if self._waiting:  # an idle replica can steal from another replica's long queue
                self._start(self._replicas[idle], now)

    def _push(self, prompts: Collection[RoutedPrompt]) -> None:
        for replica, run in self._fleet.runs(prompts).items():
            self._queues[replica].push(run)
            self._waiting += len(run)

    def _start(self, replica: _Replica, now: float) -> None:
        """Begin a replica's next step, unless a step is running or there is no work."""
        if replica.ending is not None:
            return
        self._fill(replica, now)
        if not replica.engine.in_flight:
            self._idle[replica.number] = None
            return
        self._idle.pop(replica.number, None)
        replica.ending = replica.engine.step()
        seconds = self._cluster.steps.seconds(replica.engine.computed, replica.engine.decoding)
        replica.busy += seconds
        replica.worked += seconds
        self._order += 1
        heapq.heappush(self._events, (now + seconds, self._order, replica))

    def _fill(self, replica: _Replica, now: float) -> None:
        """Fill the engine's free slots from the replica's own queue, or else from the queues of other replicas."""
        while replica.engine.in_flight < self._cluster.at_once:
            prompt = replica.queue.pop()
            if prompt is None:
                if not self._waiting or not self._steal(replica, now):
                    return
                continue
            self._waiting -= 1
            size = self._cluster.cache.block_tokens * TOKEN_BYTES
            tokens = prompt.tokens
            blocks = chained(tokens[i : i + size] for i in range(0, len(tokens) - size + 1, size))
            answer = self._arrived[prompt.key].answer_tokens
            replica.engine.add(SimulatedRequest(prompt.key, blocks, prompt.count, answer))

    def _steal(self, replica: _Replica, now: float) -> bool:
        started = time.thread_time()
        stolen = self._router.steal(replica.number, self._queues, now)
        self._outcome.deciding += time.thread_time() - started
        self._waiting -= len(stolen)  # they left their queues
        self._push(stolen)
        self._outcome.stolen += len(stolen)
        return bool(stolen)

    def _end(self, replica: _Replica, now: float) -> None:
        """End a replica's step and begin the next one."""
        done, replica.ending = replica.ending or [], None
        outcome = self._outcome
        started = time.thread_time()
        for run in done:
            outcome.expected_tokens += self._fleet.finished(run.id, run.answer_tokens).cached_tokens
        outcome.deciding += time.thread_time() - started
        for run in done:
            outcome.keys.append(run.id)
            outcome.latencies.append(now - self._arrived.pop(run.id).at)
            outcome.prompt_tokens += run.tokens
            outcome.cached_tokens += run.cached_tokens
            replica.work += Work(1, run.tokens, run.cached_tokens, run.answer_tokens)
        if done:
            outcome.last = now
        if self._cluster.learned and replica.work.calls >= _LEARN_CALLS:
            self._costs.observe(replica.work, replica.worked)
            self._fleet.learn(self._costs.rates())
            replica.work, replica.worked = Work(), 0.0
        self._start(replica, now)


def simulate(arrivals: Iterable[Arrival], cluster: Cluster, create: Callable[[Fleet], Router]) -> Outcome:
    """Route and answer prompts, which are in the order of their times. Prompts of one time are routed together."""
    return _Simulation(cluster, create).run(arrivals)


def work_off(backlog: Iterable[Arrival], cluster: Cluster, create: Callable[[Fleet], Router], horizon: int) -> Outcome:
    """Route and answer prompts that are all available from the beginning.

    They are routed in waves, as the engine routes a query's prompts (`flightllm.router.call`). At most `horizon`
    prompts are unanswered at a time. Reading from `backlog` takes no simulated time.
    """
    return _Simulation(cluster, create).work_off(iter(backlog), horizon)


def _together(arrivals: Iterable[Arrival]) -> Iterator[list[Arrival]]:
    for _, batch in groupby(arrivals, lambda one: one.at):
        yield list(batch)
