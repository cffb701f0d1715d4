"""`2q`: new blocks are on probation; those used again are kept by LRU (Johnson and Shasha 1994, the full version)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from flightllm.kvcache.eviction.base import Key, Policy, Use

_NEW: Final = 0.25
"""The part of the cache that is new blocks' own."""
_REMEMBERED: Final = 0.5
"""Of so many blocks, as a part of the cache, it is remembered that they went from probation."""


class TwoQueues(Policy[Key]):
    """What is used again while it is new is one burst, and stays new; what comes back after it went is kept."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._most_new, self._most_gone = max(1, int(_NEW * blocks)), max(1, int(_REMEMBERED * blocks))
        self._new: OrderedDict[Key, None] = OrderedDict()
        self._kept: OrderedDict[Key, None] = OrderedDict()
        self._gone: OrderedDict[Key, None] = OrderedDict()
        self._worthy: OrderedDict[Key, None] = OrderedDict()
        """Blocks that are kept once they are free, as many as there are: some are lost otherwise than by `evict`."""

    def use(self, use: Use[Key], now: float) -> None:
        """Promote blocks that went from probation not long ago; see `Policy.use`."""
        del now
        for key in use.keys:
            if key in self._gone:
                del self._gone[key]
                self._worthy[key] = None
        while len(self._worthy) > max(self._blocks, len(use.keys)):
            self._worthy.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Put a block into one of the queues; see `Policy.free`."""
        del now
        self.hold(key)
        queue = self._kept if key in self._worthy else self._new
        queue[key] = None

    def hold(self, key: Key) -> None:
        """Take a block out; see `Policy.hold`."""
        self._new.pop(key, None)
        self._kept.pop(key, None)

    def evict(self, now: float) -> Key:
        """Return the oldest on probation where these are too many, else the least recently used; see `Policy.evict`."""
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
