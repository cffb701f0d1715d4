"""Replaying prompts through caches of any policy."""

import random
import sys
from typing import Any

import pytest

from bench.eviction_replay import CLASSICAL, ahead, closed, compare, distinct, filled, replay
from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.base import Use
from flightllm.kvcache.eviction.lru import Lru


@pytest.fixture(scope="module")
def trace() -> list[Event]:
    """Return prompts of conversations, a third of which go on, among many that are asked once."""
    drawn, found, open_ones, fresh = random.Random(3), list[Event](), list[list[int]](), 0  # noqa: S311
    for number in range(1_500):
        keys = open_ones.pop(0) if len(open_ones) > 20 else [0]
        length = drawn.randint(1, 4) if drawn.random() < 0.4 else drawn.randint(8, 30)
        keys = [*keys, *range(fresh + 1, fresh + 1 + length)]
        fresh += length
        if length < 5:
            open_ones.append(keys)
        found.append(Event(float(number), What.PASSES, Use(keys)))
    return found


def test_found_blocks() -> None:
    """A block is found where it is cached with all before it."""
    prompts = [[1, 2, 3], [1, 2, 4], [5, 2], [1, 2, 3]]
    events = [Event(float(at), What.PASSES, Use(keys)) for at, keys in enumerate(prompts)]
    outcome = replay(events, 100, Lru[int]())
    assert (outcome.found, outcome.asked) == (2 + 3, 11)
    assert replay(events, 100, Lru[int](), counted=3).ratio == 1.0
    assert replay(events, 1, Lru[int]()).found == 1
    assert distinct(events) == 5


def test_what_runs_stays() -> None:
    """Blocks of prompts that run are found, however small the cache is, until the last one has ended."""
    first, second, third, other = (Use(keys) for keys in ([1, 2], [1, 2, 3], [1, 2], [9]))
    begins, ends = What.BEGINS, What.ENDS
    order = [(begins, first), (begins, second), (ends, first), (begins, third), (ends, second), (ends, third)]
    events = [Event(0.0, what, use) for what, use in [*order, (begins, other), (ends, other), (begins, first)]]
    assert replay(events, 1, Lru[int]()).found == 2 + 2


def test_policies(trace: list[Event]) -> None:
    """None finds more than the optimum, nor that more than a cache without an end; ours find about most."""
    blocks = distinct(trace) // 20
    found = compare(trace, blocks, list(POLICIES), 750)
    ratios = {name: outcome.ratio for name, outcome in found.items()}
    assert max(ratios[name] for name in POLICIES) <= ratios["belady"] <= ratios["ideal"]
    for name in ("workload_aware", "planned"):
        assert ratios[name] > max(ratios[name] for name in POLICIES) - 0.002
        assert ahead(found, name) == pytest.approx(100 * (ratios[name] - max(ratios[name] for name in CLASSICAL)))
    assert (closed(found, "lru"), closed(found, "belady")) == (0.0, 1.0)
    assert 0 < closed(found, "workload_aware") <= 1


def steps(name: str, blocks: int) -> float:
    """Return how many lines of Python an eviction runs in the mean, with many call sites."""
    policy, lines, evictions = filled(name, blocks, 50), 0, 200

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for number in range(evictions):
            policy.evict(blocks + number / 1_000)
    finally:
        sys.settrace(before)
    return lines / evictions


@pytest.mark.parametrize("name", ["lru", "workload_aware", "planned"])
def test_evictions_are_quick(name: str) -> None:
    """An eviction runs few lines of Python, and hardly more of them with sixteen times as many blocks.

    Work within one call of C, such as `min` over all blocks, does not show.
    """
    few, many = steps(name, 1_600), steps(name, 25_600)
    assert many < 1_000
    assert many < 2 * few
