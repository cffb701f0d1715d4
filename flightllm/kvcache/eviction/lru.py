"""`lru`: evicts the least recently used block, a prompt's last blocks before its first ones, as in vLLM."""

from collections import OrderedDict
from collections.abc import Sequence

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use


class Lru(EvictionPolicy[Key]):
    """Blocks in the order in which they were freed."""

    def __init__(self) -> None:
        self._free: OrderedDict[Key, None] = OrderedDict()

    def use(self, use: Use[Key], now: float) -> None:
        """Learn nothing."""

    def free(self, key: Key, now: float) -> None:
        """Append a block after all others; see `EvictionPolicy.free`."""
        del now
        self._free[key] = None
        self._free.move_to_end(key)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Append blocks after all others, the last one first; see `EvictionPolicy.free_all`."""
        del now
        free = self._free
        for key in reversed(keys):
            free.pop(key, None)
            free[key] = None

    def hold(self, key: Key) -> None:
        """Remove a block; see `EvictionPolicy.hold`."""
        self._free.pop(key, None)

    def evict(self, now: float) -> Key:
        """Return the first block; see `EvictionPolicy.evict`."""
        del now
        return self._free.popitem(last=False)[0]

    def __contains__(self, key: object) -> bool:
        return key in self._free

    def __len__(self) -> int:
        return len(self._free)
