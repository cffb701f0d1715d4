"""`fifo`: the block that was computed first goes first, however often it was used since."""

from typing import Final

from flightllm.kvcache.eviction.base import Key, Use
from flightllm.kvcache.eviction.ranked import Ranked

_REMEMBERED: Final = 2
"""Times as many blocks as the cache has are remembered; what is lost otherwise than by `evict` is so forgotten."""


class Fifo(Ranked[Key]):
    """Blocks by when they were computed; of one prompt the last one goes first."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._most = _REMEMBERED * blocks
        self._computed: dict[Key, tuple[int, int]] = {}
        self._prompts = 0

    def use(self, use: Use[Key], now: float) -> None:
        """Take note of blocks that are computed; see `Policy.use`."""
        del now
        self._prompts += 1
        for place, key in enumerate(use.keys):
            self._computed.setdefault(key, (self._prompts, -place))
        while len(self._computed) > max(self._most, len(use.keys)):
            del self._computed[next(iter(self._computed))]

    def free(self, key: Key, now: float) -> None:
        """Rank a block by when it was computed; see `Policy.free`."""
        del now
        self.put(key, self._computed.get(key, (self._prompts, 0)))

    def evict(self, now: float) -> Key:
        """Return the block that was computed first; see `Policy.evict`."""
        key = super().evict(now)
        self._computed.pop(key, None)
        return key
