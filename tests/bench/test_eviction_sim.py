"""Replaying prompts through caches of any policy."""

import random

import pytest

from bench.eviction_sim import Request, compare, replay
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.lru import Lru


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Return prompts of conversations, a third of which go on, among many that are asked once."""
    drawn, found, open_ones, fresh = random.Random(3), list[Request](), list[list[int]](), 0  # noqa: S311
    for number in range(1_500):
        keys = open_ones.pop(0) if len(open_ones) > 20 else [0]
        length = drawn.randint(1, 4) if drawn.random() < 0.4 else drawn.randint(8, 30)
        keys = [*keys, *range(fresh + 1, fresh + 1 + length)]
        fresh += length
        if length < 5:
            open_ones.append(keys)
        found.append(Request(float(number), keys))
    return found


def test_found_blocks() -> None:
    """A block is found where it is cached with all before it."""
    prompts = [Request(float(number), keys) for number, keys in enumerate([[1, 2, 3], [1, 2, 4], [5, 2], [1, 2, 3]])]
    outcome = replay(prompts, 100, Lru[int]())
    assert (outcome.found, outcome.asked) == (2 + 3, 11)
    assert replay(prompts, 100, Lru[int](), counted=3).ratio == 1.0
    assert replay(prompts, 1, Lru[int]()).found == 1


def test_policies(requests: list[Request]) -> None:
    """None finds more than the optimum, nor that more than a cache without an end; the one that learns finds most."""
    found = {name: outcome.ratio for name, outcome in compare(requests, 0.05, list(POLICIES)).items()}
    assert max(found[name] for name in POLICIES) <= found["belady"] <= found["ideal"]
    assert found["workload_aware"] == max(found[name] for name in POLICIES)
