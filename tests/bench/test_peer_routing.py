"""The routing rules of other projects: each places prompts as its documentation says."""

from collections.abc import Mapping
from itertools import islice

import numpy as np
import pytest

from bench.peers.routing import PEERS
from bench.peers.routing.dynamo import Dynamo
from bench.peers.routing.llmd import LlmD
from bench.peers.routing.llmd_latency import LlmDLatency
from bench.peers.routing.preble import Preble
from bench.peers.routing.sglang import SGLang
from bench.router_workloads import BLOCK_TOKENS, Tools, poisson
from bench.simulation import Arrival, Cluster, ObservingRouter, Outcome, Reports, simulate
from flightllm.llm.engine import PrefixCache
from tests.routing import fleet, prompt

LONG = list(range(800))


def ready(router: ObservingRouter, waiting: Mapping[int, int] | None = None) -> ObservingRouter:
    """Return a router whose engines are idle, with these numbers of waiting prompts."""
    count = len(router.fleet.load)
    router.reports = Reports(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count))
    for replica, prompts in (waiting or {}).items():
        router.reports.waiting[replica] = prompts
    return router


def route(router: ObservingRouter, key: int, tokens: list[int], now: float = 0.0) -> int:
    """Return the replica of a prompt."""
    (found,) = router.route([prompt(key, tokens)], now)
    return found


def finish(router: ObservingRouter, key: int, now: float, tokens: int = 8) -> None:
    """Tell a router of the first token and the end of an answer."""
    router.answering(key, now)
    router.answered(router.fleet.finished(key, tokens), tokens, now)


def run(peer: str, count: int = 240) -> Outcome:
    """Simulate a peer on three replicas and prompts of twenty short tools."""
    tools = Tools(tools=20, documentation_tokens=320, question_tokens=60, answer_tokens=8)
    times = poisson(np.random.default_rng(1), count, 40.0)
    asked = islice(tools(np.random.default_rng(0)), count)
    arrivals = [Arrival(at, *one) for at, one in zip(times, asked, strict=True)]
    return simulate(arrivals, Cluster(3, PrefixCache(BLOCK_TOKENS, 300), at_once=8), PEERS[peer])


@pytest.mark.parametrize("peer", PEERS)
def test_every_prompt_is_answered_once(peer: str) -> None:
    """No prompt is lost, each has a first token before its end, and a second run has the same times."""
    outcome = run(peer)
    assert sorted(outcome.keys) == list(range(240))
    assert len(outcome.firsts) == 240
    assert 0 < sum(outcome.firsts) < sum(outcome.latencies)
    assert 0 < outcome.cached_tokens < outcome.prompt_tokens
    assert run(peer).latencies == outcome.latencies


def test_llmd_weighs_queue_and_prefix() -> None:
    """The cached prompt wins by 3 to 2 over an empty queue, and half of it does not."""
    router = ready(LlmD(fleet(2)), {0: 9})
    assert route(router, 0, LONG) == 1
    router = ready(router, {1: 9})
    assert route(router, 1, LONG) == 1
    assert route(router, 2, [*LONG[:400], *range(5_000, 5_400)]) == 0


def test_llmd_counts_use_of_the_cache() -> None:
    """Without cached tokens, the replica with the emptier KV cache is chosen."""
    router = ready(LlmD(fleet(2)))
    router.reports.used[0] = 0.5
    assert route(router, 0, LONG) == 1


def test_sglang_follows_the_longest_match() -> None:
    """From 0.3 of a prompt on, the replica that had it is chosen; below, the one with the fewest prompts."""
    router = ready(SGLang(fleet(2)))
    first = route(router, 0, LONG)
    assert route(router, 1, [*LONG[:400], *range(5_000, 5_400)]) == first
    assert route(router, 2, [*LONG[:200], *range(6_000, 6_600)]) == 1 - first


def test_sglang_balances_beyond_both_thresholds() -> None:
    """With 65 more prompts on a replica than on the other, the match no longer counts."""
    router = ready(SGLang(fleet(2)))
    chosen = [route(router, key, LONG) for key in range(66)]
    assert chosen == [0] * 65 + [1]


def test_dynamo_adds_blocks_to_compute_and_blocks_in_use() -> None:
    """A cached prompt is worth its blocks, until the replica has more to compute and more in use."""
    router = ready(Dynamo(fleet(2)))
    holder = route(router, 0, LONG)
    finish(router, 0, 1.0)
    assert route(router, 1, [*LONG, *range(5_000, 6_600)]) == holder
    assert route(router, 2, LONG) == 1 - holder  # 400 blocks to compute and 600 in use, against 200 and 200


def test_dynamo_draws_with_a_temperature() -> None:
    """With a high temperature, both of two replicas are drawn, although one is always cheaper."""
    router = ready(Dynamo(fleet(2), temperature=10.0))
    chosen = set()
    for key in range(40):
        chosen.add(route(router, key, LONG))
        finish(router, key, float(key))
    assert chosen == {0, 1}


def test_preble_keeps_a_prefix_with_its_owner() -> None:
    """A prompt whose path is mostly known goes to the owner of the path; a new one to the cheapest replica."""
    router = ready(Preble(fleet(2)))
    first = route(router, 0, LONG)
    assert route(router, 1, [*LONG, 1, 2, 3, 4]) == first
    assert route(router, 2, list(range(5_000, 5_800))) == 1 - first


def test_latency_predictor_learns() -> None:
    """After answers that took longer with more tokens to compute, a cached prompt goes where it is cached."""
    router = ready(LlmDLatency(fleet(2)))
    random = np.random.default_rng(3)
    for key in range(300):
        tokens = [*(LONG if key % 2 else []), *random.integers(10_000, 20_000, 200).tolist()]
        route(router, key, tokens, float(key))
        one = router.fleet.open[key]
        seconds = 0.01 + 1e-3 * (one.prompt.count - one.cached_tokens)
        finish(router, key, key + seconds)
    for replica in router.fleet.up:
        made = router.fleet.caches[replica]
        made.clear()
    route(router, 1_000, LONG, 400.0)
    holder = router.fleet.open[1_000].replica
    finish(router, 1_000, 401.0)
    assert {route(router, key, LONG, 402.0) for key in range(1_001, 1_009)} == {holder}
