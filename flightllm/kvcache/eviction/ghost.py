"""A ghost cache: the keys that a cache of the same size holds if one policy evicts its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.workload_aware import WorkloadAware


class Ghost(Generic[Key]):
    """A policy's ghost cache; each prompt passes through it before the next one.

    With `ends_first`, a block stays until the blocks after it are evicted, because they are worthless without it. The
    policies that evict a prompt's last blocks first by themselves do not need that.
    """

    def __init__(self, policy: EvictionPolicy[Key], blocks: int, *, ends_first: bool = False) -> None:
        self.policy = policy
        self._blocks, self.ends_first = blocks, ends_first
        self._followers: dict[Key, int] = {}
        """The number of cached blocks right after each block, if there are any."""
        self._overdue: dict[Key, None] = {}
        """The cached blocks that the policy evicted, and that wait for the eviction of the blocks after them.

        The block that waits for the longest time comes first. A set has another order in each process.
        """

    def enter(self, parent: Key) -> None:
        """Record that a block, which follows `parent`, enters the cache; only `ends_first` needs that."""
        self._followers[parent] = self._followers.get(parent, 0) + 1

    def use(self, use: Use[Key], now: float, done: Sequence[bool], parents: Mapping[Key, Key | None]) -> list[Key]:
        """Let a prompt pass, whose new blocks have entered; return the blocks that are evicted then."""
        policy = self.policy
        if done and isinstance(policy, WorkloadAware):
            policy.use(use, now, done)
        else:
            policy.use(use, now)
        policy.free_all(use.keys, now)
        if self.ends_first:
            return self._evict_ends(use.keys, now, parents)
        evict = policy.evict
        return [evict(now) for _ in range(len(policy) - self._blocks)]

    def _evict_ends(self, used: Sequence[Key], now: float, parents: Mapping[Key, Key | None]) -> list[Key]:
        """Evict what the cache has too much: blocks after which no blocks are cached."""
        overdue, followers, evict = self._overdue, self._followers, self.policy.evict
        if overdue:
            for key in used:
                overdue.pop(key, None)
        free = len(self.policy)
        surplus = free + len(overdue) - self._blocks
        gone: list[Key] = []
        while len(gone) < surplus:
            if not free:  # all blocks wait for others: two callers said that other blocks come before a block
                key = next(iter(overdue))
                del overdue[key]
                gone.append(key)
                continue
            key, free = evict(now), free - 1
            if key in followers:
                overdue[key] = None
                continue
            while True:  # the end of a chain, and the overdue blocks before it that are ends then
                gone.append(key)
                parent = parents.get(key)
                left = 0 if parent is None else followers.get(parent, 0)
                if parent is None or not left:
                    break
                if left > 1:
                    followers[parent] = left - 1
                    break
                del followers[parent]
                if parent not in overdue:
                    break
                del overdue[parent]
                key = parent
        return gone
