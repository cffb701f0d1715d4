"""Simulate replicas that answer routed prompts, with continuous batching, block caches and the router's own classes.

Time moves from event to event: prompts arrive, and replicas end steps. The time of a step depends on the tokens that it
computes. The simulation follows each prompt, its position in the queues and each cached block.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.engines.prefix import STEP_TOKENS, PrefixSimulator, SimulatedRequest, chained
from flightllm.llm.cost import Costs, Rates, Work
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import Router
from flightllm.router.fleet import WINDOW_SECONDS, Assigned, Fleet
from flightllm.router.online import OnlineRouter
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


def measured(path: Path) -> StepRates:
    """Return the rates that `python -m bench.engine_steps --json` printed, from a file with its output.

    Raises:
        ValueError: the file has no such figures.
    """
    lines = path.read_text(encoding="utf-8").strip().splitlines()
    try:
        figures = json.loads(lines[-1])
        names = ("base_ms", "computed_ms", "decoding_ms")
        base, computed, decoding = (max(0.0, float(figures[name])) / 1_000 for name in names)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected the output of `python -m bench.engine_steps --json`") from error
    if not computed:
        raise ValueError(f"{path}: computed_ms is 0; a step must take time for its tokens")
    return StepRates(base, computed, decoding)


def _recorded() -> dict[str, StepRates]:
    found = json.loads((Path(__file__).parent / "engine_steps.json").read_text(encoding="utf-8"))
    return {
        name: StepRates(*(one[part] / 1_000 for part in ("base_ms", "computed_ms", "decoding_ms", "least_ms")))
        for name, one in found.items()
    }


ENGINES: Final = _recorded()
"""The step times that were measured on real engines; `engine_steps.json` says by whom and how."""


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


@dataclass(frozen=True, slots=True)
class Reports:
    """The engines' own reports, with one entry for each replica. The entries change as time passes."""

    waiting: NDArray[np.int64]
    """The prompts that wait, in the engine or for it."""
    running: NDArray[np.int64]
    used: NDArray[np.float64]
    """The share of the cache blocks that running prompts hold, 0 to 1."""


class ObservingRouter(OnlineRouter):
    """A policy that sees the engines' reports and each first token and answer, as gateways do. No prompt is reordered.

    Its prompts are sent at once, in the order in which they come.
    """

    reports: Reports

    def answering(self, key: int, now: float) -> None:
        """Learn that a prompt's first token has come."""

    def answered(self, one: Assigned, tokens: int, now: float) -> None:
        """Learn that an answer of `tokens` tokens is complete; the fleet has ended the prompt already."""


@dataclass(slots=True)
class Outcome:
    """The result of one run; times are in seconds."""

    keys: list[int] = field(default_factory=list)
    """The prompts in the order of their answers."""
    latencies: list[float] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    """The cached tokens of each prompt, in the order of the answers."""
    firsts: list[float] = field(default_factory=list)
    """The seconds to the first token, in the order of the first tokens."""
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

    def figures(self, warm: int = 0) -> dict[str, float]:
        """Return the figures to report; the times of answers leave out the first `warm` prompts."""
        latencies: NDArray[np.float64] = np.array(self.latencies)[np.array(self.keys) >= warm]
        firsts: NDArray[np.float64] = np.array(self.firsts)
        return {
            "prompts": len(self.keys),
            "hit_ratio": self.hit_ratio,
            "expected_hit_ratio": self.expected_tokens / max(1, self.prompt_tokens),
            "mean": float(latencies.mean()),
            "p50": float(np.quantile(latencies, 0.5)),
            "p99": float(np.quantile(latencies, 0.99)),
            "first_mean": float(firsts.mean()),
            "first_p99": float(np.quantile(firsts, 0.99)),
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
        self.silent: list[SimulatedRequest] = []
        """The prompts in the engine that have no token of an answer."""
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
        waiting, running = (np.zeros(cluster.replicas, np.int64) for _ in range(2))
        self._reports = Reports(waiting, running, np.zeros(cluster.replicas))
        self._observer = self._router if isinstance(self._router, ObservingRouter) else None
        if self._observer is not None:
            self._observer.reports = self._reports

    def run(self, arrivals: Iterable[Arrival]) -> Outcome:
        key = 0
        batches = _together(arrivals)
        batch = next(batches, None)
        self._outcome.first = batch[0].at if batch else 0.0
        while batch or self._events:
            if batch and (not self._events or batch[0].at <= self._events[0][0]):
                size = 1 if self._observer else len(batch)  # a gateway sees one request after the other
                for start in range(0, len(batch), size):
                    self._arrive(key, batch[start : start + size], batch[0].at)
                    key += size
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
            self._take(replica)  # an engine accepts prompts while a step runs
            self._report(replica)
            return
        self._fill(replica, now)
        if not replica.engine.in_flight:
            self._idle[replica.number] = None
            self._report(replica)
            return
        self._idle.pop(replica.number, None)
        replica.ending = replica.engine.step()
        self._report(replica)
        seconds = self._cluster.steps.seconds(replica.engine.computed, replica.engine.decoding)
        replica.busy += seconds
        replica.worked += seconds
        self._order += 1
        heapq.heappush(self._events, (now + seconds, self._order, replica))

    def _report(self, replica: _Replica) -> None:
        if self._observer is not None:
            engine, number = replica.engine, replica.number
            self._reports.waiting[number] = engine.waiting
            self._reports.running[number] = engine.in_flight - engine.waiting
            self._reports.used[number] = engine.held_blocks / (self._cluster.cache.blocks or 1 << 62)

    def _fill(self, replica: _Replica, now: float) -> None:
        """Fill the engine's free slots from the replica's own queue, or else from the queues of other replicas."""
        while True:
            self._take(replica)
            has_room = replica.engine.in_flight < self._cluster.at_once
            if not (has_room and self._waiting and self._steal(replica, now)):
                return

    def _take(self, replica: _Replica) -> None:
        """Fill the engine's free slots from the replica's own queue; a gateway hands all its prompts to the engine."""
        room = 1 << 62 if self._observer else self._cluster.at_once
        while replica.engine.in_flight < room and (prompt := replica.queue.pop()) is not None:
            self._waiting -= 1
            size = self._cluster.cache.block_tokens * TOKEN_BYTES
            tokens = prompt.tokens
            blocks = chained(tokens[i : i + size] for i in range(0, len(tokens) - size + 1, size))
            answer = self._arrived[prompt.key].answer_tokens
            request = SimulatedRequest(prompt.key, blocks, prompt.count, answer)
            replica.silent.append(request)
            replica.engine.add(request)

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
        outcome, observer = self._outcome, self._observer
        spoke = [run.id for run in replica.silent if run.answered]
        if spoke:
            replica.silent = [run for run in replica.silent if not run.answered]
            outcome.firsts += [now - self._arrived[key].at for key in spoke]
        started = time.thread_time()
        if observer is not None:
            for key in spoke:
                observer.answering(key, now)
        for run in done:
            one = self._fleet.finished(run.id, run.answer_tokens)
            outcome.expected_tokens += one.cached_tokens
            if observer is not None:
                observer.answered(one, run.answer_tokens, now)
        outcome.deciding += time.thread_time() - started
        for run in done:
            outcome.keys.append(run.id)
            outcome.latencies.append(now - self._arrived.pop(run.id).at)
            outcome.prompt_tokens += run.tokens
            outcome.cached_tokens += run.cached_tokens
            outcome.cached.append(run.cached_tokens)
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
