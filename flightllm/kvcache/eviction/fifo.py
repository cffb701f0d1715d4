"""`fifo`: the block that was computed first goes first, however often it was used since."""

from flightllm.kvcache.eviction.base import Key, Use
from flightllm.kvcache.eviction.ranked import Ranked


class Fifo(Ranked[Key]):
    """Blocks by when they were computed; of one prompt the last one goes first."""

    def __init__(self) -> None:
        super().__init__()
        self._computed: dict[Key, tuple[int, int]] = {}
        self._prompts = 0

    def use(self, use: Use[Key], now: float) -> None:
        """Take note of blocks that are computed; see `Policy.use`."""
        del now
        self._prompts += 1
        for place, key in enumerate(use.keys):
            self._computed.setdefault(key, (self._prompts, -place))

    def free(self, key: Key, now: float) -> None:
        """Rank a block by when it was computed; see `Policy.free`."""
        del now
        self.put(key, self._computed.setdefault(key, (self._prompts, 0)))

    def evict(self, now: float) -> Key:
        """Return the block that was computed first; see `Policy.evict`."""
        key = super().evict(now)
        del self._computed[key]
        return key
