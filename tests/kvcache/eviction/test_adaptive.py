"""The policy `workload_aware` follows the best of its ghosts."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from bench.eviction_replay import replay
from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.eviction.base import EvictionPolicy, Use
from flightllm.kvcache.eviction.ghost import Ghost
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.planned import PlannedPolicy
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

CLASSICAL = ("lru", "2q", "gdsf", "arc", "s3_fifo")


def events(prompts: Sequence[Sequence[int]]) -> list[Event]:
    """Return prompts that pass one after the other."""
    return [Event(float(at), What.PASSES, Use(list(keys))) for at, keys in enumerate(prompts)]


def looping(seed: int) -> list[list[int]]:
    """Return a loop that is longer than the cache beside a hot set: LRU finds little of it."""
    drawn = random.Random(seed)  # noqa: S311
    loop = [[number, number + 1] for number in range(1_000, 1_400, 2)]
    return [loop[number % len(loop)] if number % 2 else [9, drawn.randrange(10, 40)] for number in range(6_000)]


def recent(seed: int) -> list[list[int]]:
    """Return conversations that go on soon or never: frequencies say little about them."""
    drawn, fresh = random.Random(seed), iter(range(100, 1_000_000))  # noqa: S311
    talks: list[list[int]] = []
    found = []
    for _ in range(4_000):
        talk = talks.pop(drawn.randrange(len(talks))) if len(talks) > 12 else [1]
        talk = [*talk, *(next(fresh) for _ in range(drawn.randrange(1, 4)))]
        if drawn.random() < 0.9:
            talks.append(talk)
        found.append(talk)
    return found


@pytest.mark.parametrize("blocks", [120, *(pytest.param(blocks, marks=pytest.mark.slow) for blocks in (60, 240))])
@pytest.mark.parametrize("workload", [looping, recent])
def test_nothing_is_lost_to_the_best(workload: Callable[[int], list[list[int]]], blocks: int) -> None:
    """It finds about as much as the best classical policy, whichever that is."""
    prompts = events(workload(1))
    ratios = {name: replay(prompts, blocks, POLICIES[name](blocks)).ratio for name in (*CLASSICAL, "workload_aware")}
    assert ratios["workload_aware"] > max(ratios[name] for name in CLASSICAL) - 0.003


def test_the_best_differs() -> None:
    """LRU is far behind on loops, and the policies that resist loops are behind on conversations."""
    found = {}
    for workload in (looping, recent):
        prompts = events(workload(1))
        found[workload] = {name: replay(prompts, 120, POLICIES[name](120)).ratio for name in CLASSICAL}
    assert max(found[looping].values()) > found[looping]["lru"] + 0.05
    assert min(found[recent].values()) < found[recent]["lru"] - 0.01


def test_ghosts_hold_what_their_policies_hold() -> None:
    """A ghost of a policy has the blocks of a real cache with that policy."""
    prompts, policy, cached = recent(2)[:600], Lru[int](), set[int]()
    ghost, held = Ghost(Lru[int](), 50), set[int]()
    for at, keys in enumerate(prompts):
        gone = ghost.use(Use(keys), float(at), (), {})
        held = (held | set(keys)) - set(gone)
        for key in keys:
            policy.hold(key)
        for key in reversed(keys):
            policy.free(key, float(at))
        cached |= set(keys)
        while len(cached) > 50:
            cached.remove(policy.evict(float(at)))
        assert held == cached


def test_ends_first() -> None:
    """A block stays in a ghost until all blocks after it are gone, even if its policy evicts it before them."""
    ghost = Ghost(WorkloadAware[int](40), 40, ends_first=True)
    parents: dict[int, int | None] = {}
    held = set[int]()
    for at, keys in enumerate(recent(3)[:800]):
        parent = None
        for key in keys:
            if key not in held and parent is not None:
                ghost.enter(parent)
            parents[key] = parent
            held.add(key)
            parent = key
        held -= set(ghost.use(Use(keys), float(at), (), parents))
        assert len(held) <= 40
        assert all(parents[key] is None or parents[key] in held for key in held)


def test_the_example_of_weights() -> None:
    """The table in the docstring of the module holds: the lowest sum of weights goes first, then the oldest."""
    policy = Adaptive[int](10)
    policy._scores = [0.0, -1.0, -1e9, -1e9, -1e9, -1e9]
    policy._weigh()
    held = {1: 0b000001, 2: 0b000100, 3: 0b000010, 4: 0, 5: 0b000011, 6: 0b000100}
    policy._holders.update({key: ghosts for key, ghosts in held.items() if ghosts})
    for key in held:
        policy.free(key, 0.0)
    assert [policy.evict(0.0) for _ in held] == [4, 2, 6, 3, 1, 5]


def test_blocks_in_use_stay() -> None:
    """A block that no ghost holds any more stays while a prompt uses it, and goes first afterwards."""
    policy = Adaptive[int](4)
    policy.use(Use([1, 2]), 0.0)
    for number in range(10, 30):
        policy.use(Use([number]), float(number))
        policy.free(number, float(number))
    policy.free(2, 30.0)
    policy.free(1, 30.0)
    gone = [policy.evict(30.0) for _ in range(len(policy))]
    assert gone.index(2) < gone.index(1) < gone.index(29)


def test_planned_follows_the_ghosts_again() -> None:
    """Long after the last prompt with a plan, `planned` evicts what `workload_aware` evicts."""
    policies: list[EvictionPolicy[int]] = [Adaptive(120), PlannedPolicy(120)]
    caches: list[set[int]] = [set(), set()]
    evicted: list[list[int]] = [[], []]
    for at, keys in enumerate(recent(1)[:3_000]):
        ahead = len(keys) if 100 <= at < 200 else None
        for policy, cached, gone in zip(policies, caches, evicted, strict=True):
            policy.use(Use(keys, ahead=ahead), float(at))
            for key in keys:
                policy.hold(key)
            cached.update(keys)
            policy.free_all(keys, float(at))
            while len(cached) > 120:
                gone.append(policy.evict(float(at)))
                cached.remove(gone[-1])
    assert evicted[0] != evicted[1]
    assert evicted[0][-1_000:] == evicted[1][-1_000:]
    assert caches[0] == caches[1]


def test_a_ghost_whose_blocks_all_wait() -> None:
    """If every block of a ghost waits for blocks after it, the one that has waited longest goes."""
    ghost = Ghost(Lru[str](), 2, ends_first=True)
    for key in ("a", "b", "c", "d"):
        ghost.enter(key)
    assert ghost.use(Use(["a", "b", "c", "d"]), 0.0, (), {}) == ["d", "c"]
    assert ghost.use(Use(["e"]), 1.0, (), {}) == ["e"]


_EVICT = """
import random
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.base import Use

for name, make in POLICIES.items():
    policy, cached, drawn = make(40), set(), random.Random(1)
    for at in range(500):
        first = min(drawn.randrange(1, 60) for _ in range(3))
        keys = [f"block {first} {place}" for place in range(1 + first % 7)]
        ahead = len(keys) if at % 100 > 70 else None
        policy.use(Use(keys, f"site {first % 3}", ahead, f"query {at // 100}", at), float(at))
        for key in keys:
            policy.hold(key)
            cached.add(key)
        policy.free_all(keys, float(at))
        while len(cached) > 40:
            key = policy.evict(float(at))
            cached.remove(key)
            print(name, key)
"""


def test_the_same_evictions_in_each_process() -> None:
    """The hashes of texts differ between processes; what is evicted does not."""
    printed = [
        subprocess.run(
            [sys.executable, "-c", _EVICT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(printed[0].splitlines()) > 1_000
    assert printed[0] == printed[1]
