"""`gdsf`: greedy dual, by frequency (Cherkasova 1998; here all blocks have one size and cost).

A block's rank is its number of uses plus the rank of the last evicted block at that time. So unused blocks age.
"""

from collections import OrderedDict

from flightllm.kvcache.eviction.base import Key, Use
from flightllm.kvcache.eviction.ranked import Ranked


class Gdsf(Ranked[Key]):
    """The GDSF policy; it remembers the frequencies of as many blocks as the cache has."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._most = blocks
        self._uses: OrderedDict[Key, int] = OrderedDict()
        self._age = 0

    def use(self, use: Use[Key], now: float) -> None:
        """Count the uses; see `Policy.use`."""
        del now
        for key in use.keys:
            self._uses[key] = self._uses.pop(key, 0) + 1
        while len(self._uses) > max(self._most, len(use.keys)):
            self._uses.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Rank a block; see `Policy.free`."""
        del now
        self.put(key, self._age + self._uses.get(key, 1))

    def evict(self, now: float) -> Key:
        """Return the block of the lowest rank; later blocks are ranked above this rank. See `Policy.evict`."""
        del now
        self._age, key = self.lowest()
        return key
