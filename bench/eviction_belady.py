"""`belady`: evicts the block whose next use is farthest away; for simulations, which know the future."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final

from flightllm.kvcache.eviction.base import Key, Use
from flightllm.kvcache.eviction.ranked import Ranked

_NEVER: Final = 1 << 62


class Belady(Ranked[Key]):
    """The optimal policy (Belady 1966), for prompts that come in the order of `future`."""

    def __init__(self, future: Sequence[Sequence[Key]]) -> None:
        super().__init__()
        self._next: defaultdict[Key, deque[tuple[int, int]]] = defaultdict(deque)
        for number, keys in enumerate(future):
            for place, key in enumerate(keys):
                self._next[key].append((number, place))

    def use(self, use: Use[Key], now: float) -> None:
        """Advance to the next prompt; see `EvictionPolicy.use`."""
        del now
        for key in use.keys:
            self._next[key].popleft()

    def free(self, key: Key, now: float) -> None:
        """Rank a block by its next use; see `EvictionPolicy.free`."""
        del now
        number, place = self._next[key][0] if self._next[key] else (_NEVER, 0)
        self.put(key, (-number, -place))
