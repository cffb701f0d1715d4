"""`gdsf`: greedy dual, by frequency (Cherkasova 1998; here all blocks have one size and cost).

A block's rank is its number of uses plus the rank of the last evicted block at that time. So unused blocks age.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use


class Gdsf(EvictionPolicy[Key]):
    """The GDSF policy; it remembers the frequencies of as many blocks as the cache has."""

    def __init__(self, blocks: int) -> None:
        self._most = blocks
        self._uses: OrderedDict[Key, int] = OrderedDict()
        self._age = 0
        self._ranks: dict[Key, int] = {}
        """The rank of each evictable block."""
        self._bands: dict[int, OrderedDict[Key, None]] = {}
        """The evictable blocks of each rank, in the order in which they were freed."""
        self._order: list[int] = []
        """A heap of the ranks in `_bands`."""

    def use(self, use: Use[Key], now: float) -> None:
        """Count the uses; see `EvictionPolicy.use`."""
        del now
        uses = self._uses
        for key in use.keys:
            uses[key] = uses.pop(key, 0) + 1
        while len(uses) > max(self._most, len(use.keys)):
            uses.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Rank a block; see `EvictionPolicy.free`."""
        self.free_all((key,), now)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Rank blocks, the last one first; see `EvictionPolicy.free_all`."""
        del now
        age, uses, ranks, bands = self._age, self._uses, self._ranks, self._bands
        for key in reversed(keys):
            rank = age + uses.get(key, 1)
            before = ranks.get(key)
            if before is not None:
                del bands[before][key]
            ranks[key] = rank
            band = bands.get(rank)
            if band is None:
                band = bands[rank] = OrderedDict()
                heapq.heappush(self._order, rank)
            band[key] = None

    def hold(self, key: Key) -> None:
        """Remove a block; see `EvictionPolicy.hold`."""
        rank = self._ranks.pop(key, None)
        if rank is not None:
            del self._bands[rank][key]

    def evict(self, now: float) -> Key:
        """Return the block of the lowest rank; later blocks are ranked above this rank. See `EvictionPolicy.evict`."""
        del now
        while self._order:
            rank = self._order[0]
            band = self._bands[rank]
            if band:
                key, _ = band.popitem(last=False)
                del self._ranks[key]
                self._age = rank
                return key
            heapq.heappop(self._order)
            del self._bands[rank]
        raise KeyError("no block is evictable")

    def __contains__(self, key: object) -> bool:
        return key in self._ranks

    def __len__(self) -> int:
        return len(self._ranks)
