"""Replay the starts and ends of prompts through a cache with an eviction policy, and count the cache hits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.eviction_belady import Belady
from bench.eviction_peers import PEERS
from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction import POLICIES
from flightllm.kvcache.eviction.base import EvictionPolicy, Use

BEGINS: Final = (What.BEGINS, What.PASSES)
ENDS: Final = (What.ENDS, What.PASSES)
_PROMPT_BLOCKS: Final = 20
CLASSICAL: Final = ("lru", "2q", "gdsf", "arc", "s3_fifo")
"""The policies of which the best one is the measure of ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a replay.

    `found` of the `asked` blocks were in the cache. `evicting` is the median of the seconds per eviction.
    """

    found: int
    asked: int
    evicting: float

    @property
    def ratio(self) -> float:
        """Return the share of blocks that were found, 0 to 1."""
        return self.found / self.asked


class _Cache:
    """The cached blocks; the blocks of running prompts are held and cannot be evicted."""

    def __init__(self, blocks: int, policy: EvictionPolicy[int]) -> None:
        self._blocks, self._policy = blocks, policy
        self._cached: set[int] = set()
        self._held: Counter[int] = Counter()
        self.evicting: list[float] = []

    def begin(self, use: Use[int], now: float) -> int:
        """Hold a prompt's blocks; return the number of hits.

        A hit is a cached block before which all blocks of the prompt are cached too.
        """
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
        """Release a prompt's blocks."""
        for key in reversed(use.keys):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                self._policy.free(key, now)

    def shrink(self, now: float) -> None:
        """Evict blocks until the cache fits its size."""
        while len(self._cached) > max(self._blocks, len(self._held)):
            started = time.perf_counter()
            key = self._policy.evict(now)
            self.evicting.append(time.perf_counter() - started)
            self._cached.remove(key)


def replay(events: Sequence[Event], blocks: int, policy: EvictionPolicy[int], counted: int = 0) -> Outcome:
    """Replay prompts through a cache; return the hits after the first `counted` prompts.

    The first `counted` prompts only warm the cache.

    While a prompt with more blocks than the cache runs, the cache is larger.
    """
    cache, found, asked, begun = _Cache(blocks, policy), 0, 0, 0
    for event in events:
        use, now = event.use, event.at
        if event.what is What.WAITS:
            policy.queue(use, now)
        if event.what in BEGINS:
            hits = cache.begin(use, now)
            if begun >= counted:
                found, asked = found + hits, asked + len(use.keys)
            begun += 1
        if event.what in ENDS:
            cache.end(use, now)
        cache.shrink(now)
    return Outcome(found, asked, median(cache.evicting) if cache.evicting else 0.0)


def compare(events: Sequence[Event], blocks: int, names: Sequence[str], counted: int = 0) -> dict[str, Outcome]:
    """Return the outcome of each policy, of `belady`, which knows the future, and of `ideal`, an unlimited cache."""
    begun = [event.use.keys for event in events if event.what in BEGINS]
    made: dict[str, EvictionPolicy[int]] = {name: {**POLICIES, **PEERS}[name](blocks) for name in names}
    made["belady"] = Belady(begun)
    found = {name: replay(events, blocks, policy, counted) for name, policy in made.items()}
    return {**found, "ideal": replay(events, distinct(events), POLICIES["lru"](blocks), counted)}


def distinct(events: Sequence[Event]) -> int:
    """Return the number of distinct blocks in the prompts."""
    return len({key for event in events for key in event.use.keys})


def ahead(found: dict[str, Outcome], name: str) -> float:
    """Return how many points of the hit ratio a policy is above the best classical policy; below 0 if it is behind."""
    best = max((found[other].ratio for other in CLASSICAL if other in found), default=float("nan"))
    return 100 * (found[name].ratio - best)


def closed(found: dict[str, Outcome], name: str) -> float:
    """Return the share of the gap between `lru` and `belady` that a policy closes; NaN if there is no gap."""
    gap = found["belady"].found - found["lru"].found
    return (found[name].found - found["lru"].found) / gap if gap > 0 else float("nan")


def eviction_seconds(name: str, blocks: int = 100_000, classes: int = 50, evictions: int = 2_000) -> float:
    """Return the median seconds of an eviction, with `blocks` blocks that can be evicted and `classes` call sites."""
    policy = filled(name, blocks, classes)
    seconds = []
    for number in range(evictions):
        started = time.perf_counter()
        policy.evict(blocks + number / 1_000)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def filled(name: str, blocks: int, classes: int) -> EvictionPolicy[int]:
    """Return a policy with `blocks` blocks that can be evicted, from prompts of `classes` call sites."""
    policy: EvictionPolicy[int] = POLICIES[name](blocks)
    keys = range(_PROMPT_BLOCKS)
    for number, start in enumerate(range(0, blocks, _PROMPT_BLOCKS)):
        policy.use(Use([start + key for key in keys], number % classes), float(number))
        for key in reversed(keys):
            policy.free(start + key, float(number))
    return policy
