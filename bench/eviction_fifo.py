"""`fifo`: evicts the block that was computed first, regardless of later uses."""

from typing import Final

from flightllm.kvcache.eviction.base import Key, Use
from flightllm.kvcache.eviction.ranked import Ranked

_REMEMBERED: Final = 2
"""The number of remembered blocks, as a multiple of the cache's blocks.

Because of this limit, blocks that are lost without a call of `evict` are forgotten too.
"""


class Fifo(Ranked[Key]):
    """Blocks by the time of their computation; the last block of a prompt is evicted before the others."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._most = _REMEMBERED * blocks
        self._computed: dict[Key, tuple[int, int]] = {}
        self._prompts = 0

    def use(self, use: Use[Key], now: float) -> None:
        """Record computed blocks; see `EvictionPolicy.use`."""
        del now
        self._prompts += 1
        for place, key in enumerate(use.keys):
            self._computed.setdefault(key, (self._prompts, -place))
        while len(self._computed) > max(self._most, len(use.keys)):
            del self._computed[next(iter(self._computed))]

    def free(self, key: Key, now: float) -> None:
        """Rank a block by the time of its computation; see `EvictionPolicy.free`."""
        del now
        self.put(key, self._computed.get(key, (self._prompts, 0)))

    def evict(self, now: float) -> Key:
        """Return the block that was computed first; see `EvictionPolicy.evict`."""
        key = super().evict(now)
        self._computed.pop(key, None)
        return key
