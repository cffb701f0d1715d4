"""`arc`: two LRU lists, for blocks used once and more often; evicted blocks decide their sizes (Megiddo, Modha).

The paper is "ARC: A Self-Tuning, Low Overhead Replacement Cache" (FAST 2003).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use


class Arc(EvictionPolicy[Key]):
    """The ARC policy.

    A cached block is in the list `recent` (the paper's T1) or `frequent` (T2). The policy remembers blocks that it
    evicted from each list (B1 and B2). A prompt that needs a remembered block makes its list's share of the cache
    larger. The target is the number of blocks of `recent`.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = max(1, blocks)
        self._target = 0.0
        self._recent: OrderedDict[Key, None] = OrderedDict()
        """The evictable blocks of T1, and below those of T2; the least recently used block comes first."""
        self._frequent: OrderedDict[Key, None] = OrderedDict()
        self._held: OrderedDict[Key, bool] = OrderedDict()
        """The blocks in use, and whether each is in T2. There are at most as many as blocks in the cache.

        Without this limit, blocks that leave the cache without a call of `evict` would stay here.
        """
        self._held_recent = 0
        self._gone_recent: OrderedDict[Key, None] = OrderedDict()
        self._gone_frequent: OrderedDict[Key, None] = OrderedDict()
        self._from_frequent = False
        """Whether the last block that prompts needed was remembered from T2."""
        self._new = False
        """Whether the last block that prompts needed was not known."""

    def use(self, use: Use[Key], now: float) -> None:
        """Move used blocks to the frequent ones, and adapt the target; see `EvictionPolicy.use`."""
        del now
        frequent, cached = self._frequent, False
        for key in use.keys:
            cached = key in frequent
            if cached:
                frequent.move_to_end(key)
            else:
                self._use(key)
        if cached:
            self._from_frequent = self._new = False
        while len(self._held) > max(self._blocks, len(use.keys)):
            self._held_recent -= not self._held.popitem(last=False)[1]

    def _use(self, key: Key) -> None:
        self._from_frequent = self._new = False
        if key in self._recent:
            del self._recent[key]
            self._frequent[key] = None
        elif key in self._held:
            self._hold(key, often=True)
        elif key in self._gone_recent:
            more = len(self._gone_frequent) / len(self._gone_recent)
            self._target = min(self._blocks, self._target + max(1.0, more))
            del self._gone_recent[key]
            self._hold(key, often=True)
        elif key in self._gone_frequent:
            self._from_frequent = True
            less = len(self._gone_recent) / len(self._gone_frequent)
            self._target = max(0.0, self._target - max(1.0, less))
            del self._gone_frequent[key]
            self._hold(key, often=True)
        else:
            self._new = True
            self._forget()
            self._held[key] = False
            self._held_recent += 1

    def _forget(self) -> None:
        """Forget an evicted block, so that a new block fits: T1 and B1 have one cache's blocks, all lists two."""
        first = len(self._recent) + self._held_recent + len(self._gone_recent)
        cached = len(self._recent) + len(self._frequent) + len(self._held)
        if first >= self._blocks:
            if self._gone_recent:
                self._gone_recent.popitem(last=False)
        elif cached + len(self._gone_recent) + len(self._gone_frequent) >= 2 * self._blocks and self._gone_frequent:
            self._gone_frequent.popitem(last=False)

    def _hold(self, key: Key, *, often: bool) -> None:
        before = self._held.pop(key, True)
        self._held[key] = often
        self._held_recent += before - often

    def free(self, key: Key, now: float) -> None:
        """Make a block the most recently used block of its list; see `EvictionPolicy.free`."""
        self.free_all((key,), now)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Make blocks the most recently used ones, the last block first; see `EvictionPolicy.free_all`."""
        del now
        recent, frequent, held = self._recent, self._frequent, self._held
        for key in reversed(keys):
            if key in frequent:
                frequent.move_to_end(key)
            elif key in recent:
                recent.move_to_end(key)
            else:
                often = held.pop(key, None)
                self._held_recent -= often is False
                (frequent if often else recent)[key] = None

    def hold(self, key: Key) -> None:
        """Remove a block, and remember its list; see `EvictionPolicy.hold`."""
        if key in self._recent:
            del self._recent[key]
            self._hold(key, often=False)
        elif key in self._frequent:
            del self._frequent[key]
            self._hold(key, often=True)

    def evict(self, now: float) -> Key:
        """Return the least recently used block of the list that has more blocks than its share."""
        del now
        size = len(self._recent)
        above = size > self._target or (self._from_frequent and size == self._target)
        if self._recent and (above or not self._frequent):
            key, _ = self._recent.popitem(last=False)
            if size + len(self._gone_recent) + self._new <= self._blocks:
                self._gone_recent[key] = None
        else:
            key, _ = self._frequent.popitem(last=False)
            self._gone_frequent[key] = None
        return key

    def __contains__(self, key: object) -> bool:
        return key in self._recent or key in self._frequent

    def __len__(self) -> int:
        return len(self._recent) + len(self._frequent)
