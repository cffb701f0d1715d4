"""`2q`: new blocks are on probation; blocks that return are kept by LRU (Johnson and Shasha 1994, full version)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use

_NEW: Final = 0.25
"""The fraction of the cache that is reserved for new blocks."""
_REMEMBERED: Final = 0.5
"""The policy remembers at most this many blocks that it evicted from probation, as a fraction of the cache."""


class TwoQueues(EvictionPolicy[Key]):
    """The 2Q policy.

    All uses of a new block count as one use, so the block stays new. A block that returns after its eviction is kept.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._most_new, self._most_gone = max(1, int(_NEW * blocks)), max(1, int(_REMEMBERED * blocks))
        self._new: OrderedDict[Key, None] = OrderedDict()
        self._kept: OrderedDict[Key, None] = OrderedDict()
        self._gone: OrderedDict[Key, None] = OrderedDict()
        self._worthy: OrderedDict[Key, None] = OrderedDict()
        """The blocks that go to `_kept` when they are freed; there are at most as many as blocks in the cache.

        Without this limit, blocks that leave the cache without a call of `evict` would stay here.
        """

    def use(self, use: Use[Key], now: float) -> None:
        """Promote blocks that were recently evicted from probation; see `EvictionPolicy.use`."""
        del now
        for key in use.keys:
            if key in self._gone:
                del self._gone[key]
                self._worthy[key] = None
        while len(self._worthy) > max(self._blocks, len(use.keys)):
            self._worthy.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Add a block to one of the queues; see `EvictionPolicy.free`."""
        self.free_all((key,), now)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Add blocks, the last one first; see `EvictionPolicy.free_all`."""
        del now
        new, kept, worthy = self._new, self._kept, self._worthy
        for key in reversed(keys):
            new.pop(key, None)
            kept.pop(key, None)
            queue = kept if key in worthy else new
            queue[key] = None

    def hold(self, key: Key) -> None:
        """Remove a block; see `EvictionPolicy.hold`."""
        self._new.pop(key, None)
        self._kept.pop(key, None)

    def evict(self, now: float) -> Key:
        """Return the oldest new block if there are too many new blocks, else the LRU kept block."""
        del now
        if self._new and (len(self._new) > self._most_new or not self._kept):
            key, _ = self._new.popitem(last=False)
            self._gone[key] = None
            if len(self._gone) > self._most_gone:
                self._gone.popitem(last=False)
            return key
        key, _ = self._kept.popitem(last=False)
        self._worthy.pop(key, None)
        return key

    def __contains__(self, key: object) -> bool:
        return key in self._new or key in self._kept

    def __len__(self) -> int:
        return len(self._new) + len(self._kept)
