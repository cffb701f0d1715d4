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
        self._blocks, self._ends_first = blocks, ends_first
        self._followers: dict[Key, int] = {}
        """The number of cached blocks right after each block, if there are any."""
        self._overdue: dict[Key, None] = {}
        """The cached blocks that the policy evicted, and that wait for the eviction of the blocks after them.

        The block that waits for the longest time comes first. A set has another order in each process.
        """

    def enter(self, key: Key, parent: Key | None) -> None:
        """Record that a block, which follows `parent`, enters the cache."""
        del key
        if self._ends_first and parent is not None:
            self._followers[parent] = self._followers.get(parent, 0) + 1

    def use(self, use: Use[Key], now: float, done: Sequence[bool], parents: Mapping[Key, Key | None]) -> list[Key]:
        """Let a prompt pass, whose new blocks have entered; return the blocks that are evicted then."""
        policy = self.policy
        if done and isinstance(policy, WorkloadAware):
            policy.use(use, now, done)
        else:
            policy.use(use, now)
        overdue = self._overdue
        if overdue:
            for key in use.keys:
                overdue.pop(key, None)
        policy.free_all(use.keys, now)
        surplus = len(policy) + len(overdue) - self._blocks
        if not self._ends_first:
            return [policy.evict(now) for _ in range(surplus)]
        gone: list[Key] = []
        while len(gone) < surplus:
            if not len(policy):  # all blocks wait for others: two callers said that other blocks come before a block
                key = next(iter(overdue))
                del overdue[key]
                gone.append(key)
                continue
            key = policy.evict(now)
            if key in self._followers:
                overdue[key] = None
            else:
                self._leave(key, parents, gone)
        return gone

    def _leave(self, key: Key, parents: Mapping[Key, Key | None], gone: list[Key]) -> None:
        """Evict the last block of a chain, and the overdue blocks before it that are the last ones then."""
        while True:
            gone.append(key)
            parent = parents.get(key)
            if parent is None or parent not in self._followers:
                return
            self._followers[parent] -= 1
            if self._followers[parent]:
                return
            del self._followers[parent]
            if parent not in self._overdue:
                return
            del self._overdue[parent]
            key = parent
