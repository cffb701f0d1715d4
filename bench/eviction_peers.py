"""Eviction rules to compare with, each one entry of `PEERS`: first in, first out, and the rules of other systems."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from bench.eviction_fifo import Fifo
from bench.eviction_workloads import AT_ONCE
from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.ranked import Ranked

_COUNTED_USES: Final = 64_000
"""The most blocks whose uses the Marconi policy counts."""


class QueueInformedLru(Lru[Key]):
    """The rule of vLLM's RFC 48485: LRU, but cached blocks that the first waiting prompts need stay.

    The first waiting prompts are as many as run at once. If they need all blocks, plain LRU decides.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: OrderedDict[int, Use[Key]] = OrderedDict()

    def queue(self, use: Use[Key], now: float) -> None:
        """Record a waiting prompt; see `EvictionPolicy.queue`."""
        del now
        self._waiting[id(use)] = use

    def cancel(self, use: Use[Key], now: float) -> None:
        """Forget a prompt that no longer waits; see `EvictionPolicy.cancel`."""
        del now
        self._waiting.pop(id(use), None)

    def evict(self, now: float) -> Key:
        """Return the first block in LRU order that the first waiting prompts do not need; see `evict` of `Lru`."""
        first = islice(sorted(self._waiting.values(), key=lambda use: use.priority), AT_ONCE)
        needed = {key for use in first for key in use.keys}
        key = next((key for key in self._free if key not in needed), None)
        if key is None:
            return super().evict(now)
        self.hold(key)
        return key


class Marconi(Ranked[Key]):
    """The score of the package `vllm-marconi-offload` 0.2.2, with its default of no decay.

    The score of a block is its number of uses, divided by its position in the prompt; the lowest is evicted first. The
    package takes up the policy of Marconi (MLSys 2025), and turns its preference for late blocks around.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uses: Counter[Key] = Counter()
        self._positions: dict[Key, int] = {}

    def use(self, use: Use[Key], now: float) -> None:
        """Count the uses of blocks; see `EvictionPolicy.use`."""
        del now
        for position, key in enumerate(use.keys, start=1):
            self._uses[key] += 1
            self._positions[key] = position
        while len(self._positions) > max(_COUNTED_USES, len(use.keys)):
            oldest = next(iter(self._positions))
            del self._positions[oldest], self._uses[oldest]

    def free(self, key: Key, now: float) -> None:
        """Rank a block; see `EvictionPolicy.free`."""
        del now
        self.put(key, self._uses.get(key, 1) / self._positions.get(key, 1))


PEERS: Final[Mapping[str, Callable[[int], EvictionPolicy[Any]]]] = {
    "fifo": Fifo,
    "vllm_rfc_48485": lambda _: QueueInformedLru(),
    "marconi_offload": lambda _: Marconi(),
}
"""The rules by name; each makes a policy for a number of blocks."""
