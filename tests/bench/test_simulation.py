"""The router's simulation: every prompt answered once, hits that are possible, the same figures for the same seed."""

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import pytest

from bench.router_workloads import BLOCK_TOKENS, Tools, poisson
from bench.simulation import Arrival, Cluster, Outcome, simulate, work_off
from flightllm.llm.engine import PrefixCache
from flightllm.router.base import create_router
from flightllm.router.fleet import Fleet
from flightllm.router.online import OnlineRouter
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane
from flightllm.router.round_robin import RoundRobin
from flightllm.router.tree import Node

POLICIES = ("round_robin", "least_loaded", "prefix_hash", "e2")


def arrivals(count: int, rate: float, seed: int = 0) -> list[Arrival]:
    """Return prompts of twenty short tools."""
    random = np.random.default_rng(seed)
    tools = Tools(tools=20, documentation_tokens=320, question_tokens=60, answer_tokens=8)
    times = poisson(np.random.default_rng(seed + 1), count, rate)
    return [Arrival(at, *prompt) for at, prompt in zip(times, islice(tools(random), count), strict=True)]


def run(policy: str, replicas: int, *, count: int = 300, rate: float = 40.0, blocks: int | None = 300) -> Outcome:
    """Simulate one policy."""
    cluster = Cluster(replicas, PrefixCache(BLOCK_TOKENS, blocks), at_once=8)
    return simulate(arrivals(count, rate), cluster, lambda fleet: create_router(policy, fleet))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_prompt_is_answered_once(policy: str) -> None:
    """No prompt is lost, none is answered twice, and every token is accounted for."""
    outcome = run(policy, 3)
    assert sorted(outcome.keys) == list(range(300))
    assert outcome.prompt_tokens == sum(len(one.tokens) // 4 for one in arrivals(300, 40.0))
    assert 0 < outcome.cached_tokens < outcome.prompt_tokens
    assert min(outcome.latencies) > 0


def test_one_replica_leaves_no_choice() -> None:
    """With one replica every policy comes to the same figures."""
    outcomes = [run(policy, 1) for policy in POLICIES]
    assert all(outcome.keys == outcomes[0].keys for outcome in outcomes)
    assert all(outcome.latencies == outcomes[0].latencies for outcome in outcomes)
    assert all(outcome.cached_tokens == outcomes[0].cached_tokens for outcome in outcomes)


@pytest.mark.parametrize("policy", POLICIES)
def test_hits_of_small_caches(policy: str) -> None:
    """No cache serves more than one replica without limit does, for which nothing is computed twice."""
    assert run(policy, 3).cached_tokens <= run("round_robin", 1, blocks=None).cached_tokens


@pytest.mark.parametrize("policy", POLICIES)
def test_same_seed_same_figures(policy: str) -> None:
    """A run can be repeated."""
    assert run(policy, 3).latencies == run(policy, 3).latencies


def test_prompts_that_come_at_once() -> None:
    """A whole batch is routed in one call, and its makespan is what the replicas need for it together."""
    cluster = Cluster(2, PrefixCache(BLOCK_TOKENS, 300), at_once=8)
    batch = [Arrival(5.0, one.tokens, one.answer_tokens) for one in arrivals(100, 1.0)]
    calls: list[tuple[int, float]] = []

    class Counting(RoundRobin):
        """Counts prompts by call."""

        def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
            """Note the call."""
            calls.append((len(prompts), now))
            return super().route(prompts, now)

    outcome = simulate(batch, cluster, Counting)
    assert calls == [(100, 5.0)]
    assert outcome.last - outcome.first == pytest.approx(max(outcome.busy))


def test_stolen_prompts_are_answered_once() -> None:
    """What a replica takes out of another's queue is answered there, and nowhere else."""

    class Stealing(RoundRobin):
        """Gives everything to one replica, and the others what waits there, one by one."""

        def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
            """Return the first."""
            del prompt, leaf, now
            return 0

        def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
            """Move the last one that waits."""
            taken = queues[0].waiting()[-1:] if idle else []
            queues[0].take(taken)
            for prompt in taken:
                self.fleet.finished(prompt.key)
                self.fleet.assign(prompt, self.fleet.insert(prompt), idle, now)
            return taken

    outcome = simulate(arrivals(100, 1_000.0), Cluster(3, PrefixCache(BLOCK_TOKENS, 300), at_once=4), Stealing)
    assert sorted(outcome.keys) == list(range(100))
    assert outcome.stolen > 20
    assert min(outcome.busy) > 0


@pytest.mark.parametrize("policy", ["least_loaded", "e2_batch"])
def test_a_backlog_is_worked_off(policy: str) -> None:
    """Prompts that are there from the beginning come in waves, are all answered, and never more than the horizon."""
    asked = [Arrival(0.0, one.tokens, one.answer_tokens) for one in arrivals(300, 40.0)]
    most = 0
    waves: list[int] = []

    class Watched(OnlineRouter):
        def __init__(self, fleet: Fleet) -> None:
            super().__init__(fleet)
            self._router = create_router(policy, fleet)

        def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
            raise NotImplementedError

        def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
            nonlocal most
            chosen = self._router.route(prompts, now)
            most = max(most, len(self.fleet.open))
            waves.append(len(prompts))
            return chosen

        def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
            return self._router.steal(idle, queues, now)

    outcome = work_off(asked, Cluster(3, PrefixCache(BLOCK_TOKENS, 300), at_once=8), Watched, 100)
    assert sorted(outcome.keys) == list(range(300))
    assert most == 100
    assert waves[0] == 50
    assert max(waves) <= 100


def test_all_idle_replicas_look_for_work() -> None:
    """Of prompts that all come to one replica, each idle one gets some at once."""

    class Stealing(RoundRobin):
        """Gives everything to the first, and others one each."""

        def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
            """Return the first."""
            del prompt, leaf, now
            return 0

        def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
            """Move the last one that waits, once."""
            if queues[idle] or idle in thieves:
                return []
            thieves.append(idle)
            assert now == 1.0
            (taken,) = queues[0].waiting()[-1:]
            queues[0].take([taken])
            self.fleet.finished(taken.key)
            self.fleet.assign(taken, self.fleet.insert(taken), idle, now)
            return [taken]

    thieves: list[int] = []
    batch = [Arrival(1.0, one.tokens, one.answer_tokens) for one in arrivals(40, 1.0)]
    outcome = simulate(batch, Cluster(4, PrefixCache(BLOCK_TOKENS, 300), at_once=4), Stealing)
    assert thieves[:3] == [1, 2, 3]
    assert min(outcome.busy) > 0
