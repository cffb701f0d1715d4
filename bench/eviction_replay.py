"""Run what happens to prompts through a cache of some policy, and count what is found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.base import Policy, Use
from flightllm.kvcache.eviction.belady import Belady
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

BEGINS: Final = (What.BEGINS, What.PASSES)
ENDS: Final = (What.ENDS, What.PASSES)
_PROMPT_BLOCKS: Final = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many blocks were found of those counted, and what evictions took, in seconds, at the median."""

    found: int
    asked: int
    evicting: float

    @property
    def ratio(self) -> float:
        """Return the share of blocks that were found."""
        return self.found / self.asked


class _Cache:
    """Blocks that are cached; those of prompts that run are held."""

    def __init__(self, blocks: int, policy: Policy[int]) -> None:
        self._blocks, self._policy = blocks, policy
        self._cached: set[int] = set()
        self._held: Counter[int] = Counter()
        self.evicting: list[float] = []

    def begin(self, use: Use[int], now: float) -> int:
        """Hold a prompt's blocks; return how many are found: those cached with all before them."""
        keys = use.keys
        hits = next((place for place, key in enumerate(keys) if key not in self._cached), len(keys))
        self._policy.cancel(use, now)
        self._policy.use(use, now)
        for key in keys:
            self._policy.hold(key)
        self._held.update(keys)
        self._cached.update(keys)
        return hits

    def end(self, use: Use[int], now: float) -> None:
        """Let go of a prompt's blocks."""
        for key in reversed(use.keys):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self._policy.free(key, now)

    def shrink(self, now: float) -> None:
        """Evict what does not fit."""
        while len(self._cached) > max(self._blocks, len(self._held)):
            started = time.perf_counter()
            key = self._policy.evict(now)
            self.evicting.append(time.perf_counter() - started)
            self._cached.remove(key)


def replay(
    events: Sequence[Event], blocks: int, policy: Policy[int], counted: int = 0, *, learning: bool = True
) -> Outcome:
    """Run prompts through a cache; the first `counted` ones only warm it, with `learning` off nothing is learned later.

    Where a prompt has more blocks than there are, the cache is larger while it runs.
    """
    cache, found, asked, begun = _Cache(blocks, policy), 0, 0, 0
    for event in events:
        use, now = event.use, event.at
        if event.what is What.WAITS:
            policy.queue(use, now)
        if event.what in BEGINS:
            if begun == counted and isinstance(policy, WorkloadAware):
                policy.learning = learning
            hits = cache.begin(use, now)
            if begun >= counted:
                found, asked = found + hits, asked + len(use.keys)
            begun += 1
        if event.what in ENDS:
            cache.end(use, now)
        cache.shrink(now)
    return Outcome(found, asked, median(cache.evicting) if cache.evicting else 0.0)


def compare(
    events: Sequence[Event], blocks: int, names: Sequence[str], counted: int = 0, *, learning: bool = True
) -> dict[str, Outcome]:
    """Return what each policy finds, and `belady`, which knows the future; `ideal` is a cache without an end."""
    begun = [event.use.keys for event in events if event.what in BEGINS]
    made: dict[str, Policy[int]] = {**{name: POLICIES[name](blocks) for name in names}, "belady": Belady(begun)}
    found = {name: replay(events, blocks, policy, counted, learning=learning) for name, policy in made.items()}
    return {**found, "ideal": replay(events, distinct(events), POLICIES["lru"](blocks), counted)}


def distinct(events: Sequence[Event]) -> int:
    """Return how many different blocks prompts have."""
    return len({key for event in events for key in event.use.keys})


def closed(found: dict[str, Outcome], name: str) -> float:
    """Return which share of the gap between `lru` and `belady` a policy closes; NaN where there is none."""
    gap = found["belady"].found - found["lru"].found
    return (found[name].found - found["lru"].found) / gap if gap > 0 else float("nan")


def eviction_seconds(name: str, blocks: int = 100_000, classes: int = 50, evictions: int = 2_000) -> float:
    """Return what an eviction takes, at the median, with so many blocks that may go and call sites of prompts."""
    policy = filled(name, blocks, classes)
    seconds = []
    for number in range(evictions):
        started = time.perf_counter()
        policy.evict(blocks + number / 1_000)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def filled(name: str, blocks: int, classes: int) -> Policy[int]:
    """Return a policy with so many blocks that may go, of prompts of so many call sites."""
    policy: Policy[int] = POLICIES[name](blocks)
    keys = range(_PROMPT_BLOCKS)
    for number, start in enumerate(range(0, blocks, _PROMPT_BLOCKS)):
        policy.use(Use([start + key for key in keys], number % classes), float(number))
        for key in reversed(keys):
            policy.free(start + key, float(number))
    return policy
