"""`workload_aware`: keeps the blocks that the best of six policies would keep, whichever that is at the time.

Each policy has a ghost cache, which sees all prompts and counts the blocks that it would have found (Adaptive Caches,
MICRO 2006). Each ghost has a weight, which falls with its distance from the best one. The policy evicts the block whose
ghosts have the lowest weight together. So blocks that no ghost holds go first. Once one ghost is clearly the best, the
cache holds what that ghost holds. While several are close, the cache holds what most of them hold.

Example: the ghosts A, B and C have the weights 1.0, 0.9 and 0.1.

| block | held by | weight | evicted |
|-------|---------|--------|---------|
| w     | nobody  | 0.0    | first   |
| x     | C       | 0.1    | second  |
| y     | B, C    | 1.0    | third   |
| z     | A, B    | 1.9    | last    |

Blocks of the same ghosts go in the order in which the last ghost evicted them, or in LRU order.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flightllm.kvcache.eviction.arc import Arc
from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.gdsf import Gdsf
from flightllm.kvcache.eviction.ghost import Ghost
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.memory import Memory
from flightllm.kvcache.eviction.s3_fifo import S3Fifo
from flightllm.kvcache.eviction.two_queues import TwoQueues
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

_SCALE: Final = 0.01
"""A ghost's weight falls to 1/e once it has found so many blocks less than the best one, as a part of the cache."""
_HALF_LIFE: Final = 4.0
"""Found blocks count half after this number of used blocks, as a multiple of the cache's blocks."""
_LEAST_PROMPTS: Final = 200.0
"""A cache for fewer prompts than this counts as one for this number, because the luck of single prompts evens out."""
_LENGTH_PROMPTS: Final = 100.0
"""The mean length of prompts is that of about this number of the last ones."""
_HEAD_START: Final[Sequence[float]] = (0.0, 0.0, 0.0, 0.04, 0.02, 0.0)
"""The found blocks with which each ghost starts, as a part of the cache: `arc` and `s3_fifo` lead at first.

LRU is as good at most, and loses all blocks of a long loop before its ghost shows that it is worse.
"""
_MOST_BEHIND: Final = 0.05
"""After a restart, a ghost is at most this part of the cache behind the best one."""


class Adaptive(EvictionPolicy[Key]):
    """The policy `workload_aware`; see the module's docstring.

    `learned` is the learned policy, without evictable blocks; it can have learned before.
    """

    def __init__(self, blocks: int, learned: WorkloadAware[Key] | None = None) -> None:
        blocks = max(1, blocks)
        self.learned = WorkloadAware[Key](blocks) if learned is None else learned
        self._ghosts: list[Ghost[Key]] = [
            Ghost(Lru(), blocks),
            Ghost(TwoQueues(blocks), blocks),
            Ghost(Gdsf(blocks), blocks),
            Ghost(Arc(blocks), blocks),
            Ghost(S3Fifo(blocks), blocks, ends_first=True),
            Ghost(self.learned, blocks, ends_first=True),
        ]
        self._blocks, self._length, self._prompts = blocks, 0.0, 0
        self._scores = [blocks * start for start in _HEAD_START]
        """The blocks that each ghost found; earlier ones count less."""
        self._chained = [(ghost, 1 << number) for number, ghost in enumerate(self._ghosts) if ghost.ends_first]
        self._all = (1 << len(self._ghosts)) - 1
        self._weights: list[float] = []
        """The weight of each set of ghosts; a set is a number with one bit per ghost."""
        self._order: list[int] = []
        """The sets of ghosts by weight, the lowest first; empty until an eviction needs it."""
        self._weigh()
        self._memory: Memory | None = None
        self._holders: dict[Key, int] = {}
        """The set of ghosts that hold each block."""
        self._parents: dict[Key, Key | None] = {}
        """The block before each block that a ghost holds."""
        self._bands: list[OrderedDict[Key, None]] = [OrderedDict() for _ in range(self._all + 1)]
        """The evictable blocks by the set of ghosts that hold them."""
        self._free = 0
        """The number of evictable blocks."""

    def use(self, use: Use[Key], now: float, done: Sequence[bool] = ()) -> None:
        """Let a prompt pass through the ghosts, and count what each finds; see `EvictionPolicy.use`.

        `done` has one flag per block: whether the query no longer needs the block.
        """
        self._count(use.keys)
        self._enter(use.keys)
        for number, ghost in enumerate(self._ghosts):
            self._leave(ghost.use(use, now, done, self._parents), 1 << number)
        if self._memory is not None and self._memory.is_due(now):
            self._memory.write(self.counts(), now)

    def _enter(self, keys: Sequence[Key]) -> None:
        """Record that all ghosts hold the blocks of a prompt."""
        holders, parents, every, parent = self._holders, self._parents, self._all, None
        for key in keys:
            held = holders.get(key, 0)
            if held != every:
                if parent is not None:
                    for ghost, bit in self._chained:
                        if not held & bit:
                            ghost.enter(parent)
                holders[key], parents[key] = every, parent
                self._move(key, held, every)
            parent = key

    def _leave(self, keys: Sequence[Key], ghost: int) -> None:
        """Record that a ghost, which has this bit, evicted blocks."""
        holders, parents, bands = self._holders, self._parents, self._bands
        for key in keys:
            before = holders.get(key, 0)
            held = before & ~ghost
            if held:
                holders[key] = held
            elif before:
                del holders[key], parents[key]
            band = bands[before]
            if key in band:
                del band[key]
                bands[held][key] = None

    def _move(self, key: Key, before: int, held: int) -> None:
        """Move a block, if it is evictable, between the bands of two sets of ghosts."""
        band = self._bands[before]
        if key in band:
            del band[key]
            self._bands[held][key] = None

    def _count(self, keys: Sequence[Key]) -> None:
        """Count the blocks that each ghost finds, up to the first block that it lacks."""
        holders, left, found = self._holders, self._all, [len(keys)] * len(self._ghosts)
        for place, key in enumerate(keys):
            lost = left & ~holders.get(key, 0)
            if lost:
                for number in range(len(found)):
                    if lost >> number & 1:
                        found[number] = place
                left &= ~lost
                if not left:
                    break
        self._prompts += 1
        self._length += (len(keys) - self._length) / min(self._prompts, _LENGTH_PROMPTS)
        decay = 0.5 ** (len(keys) / (_HALF_LIFE * self._size()))
        self._scores = [decay * score + more for score, more in zip(self._scores, found, strict=True)]
        self._weigh()

    def _size(self) -> float:
        return max(self._blocks, _LEAST_PROMPTS * self._length)

    def _weigh(self) -> None:
        best, scale = max(self._scores), _SCALE * self._size()
        of_ghost = [math.exp(max(-60.0, (score - best) / scale)) for score in self._scores]
        weights = [0.0]
        for weight in of_ghost:
            weights += [other + weight for other in weights]
        self._weights, self._order = weights, []

    def remember(self, memory: Memory) -> None:
        """Begin with what an earlier run learned, and write what this one learns."""
        self._memory = memory
        memory.restore(self.restore)

    def save(self, now: float) -> None:
        """Write the learned counts to the file that `remember` got, if any, and wait until they are written."""
        if self._memory is not None:
            self._memory.wait()
            self._memory.write(self.counts(), now)
            self._memory.wait()

    def counts(self) -> dict[str, Any]:
        """Return the learned counts, and how far each ghost is behind the best one, for `restore` and JSON."""
        return {**self.learned.counts(), "behind": self.behind()}

    def behind(self) -> list[float]:
        """Return how far each ghost is behind the best one, as a part of the cache."""
        best, size = max(self._scores), self._size()
        return [(best - score) / size for score in self._scores]

    def restore(self, content: Mapping[str, Any]) -> None:
        """Continue with the counts of an earlier run.

        Raises:
            KeyError, TypeError, ValueError: the content is not that of `counts`; nothing is changed.
        """
        behind = [float(part) for part in content["behind"]]
        if len(behind) != len(self._ghosts) or not all(0 <= part < math.inf for part in behind):
            raise ValueError(f"expected {len(self._ghosts)} numbers of at least 0, got {behind}")
        self.learned.restore(content)
        self.rank(behind)

    def rank(self, behind: Sequence[float]) -> None:
        """Begin with ghosts that are so far behind the best one, as `behind` of another `Adaptive` returned it.

        The best ghosts lead at first, by no more than a new cache needs to show which are the best.
        """
        self._scores = [-self._blocks * min(part, _MOST_BEHIND) for part in behind]
        self._weigh()

    def free(self, key: Key, now: float) -> None:
        """Put a block among those that the same ghosts hold; see `EvictionPolicy.free`."""
        del now
        band = self._bands[self._holders.get(key, 0)]
        if key in band:
            band.move_to_end(key)
        else:
            band[key] = None
            self._free += 1

    def hold(self, key: Key) -> None:
        """Keep a block from eviction; see `EvictionPolicy.hold`."""
        band = self._bands[self._holders.get(key, 0)]
        if key in band:
            del band[key]
            self._free -= 1

    def evict(self, now: float) -> Key:
        """Return a block of the ghosts with the lowest weight; see `EvictionPolicy.evict`."""
        del now
        if not self._order:
            self._order = sorted(range(self._all + 1), key=self._weights.__getitem__)
        bands = self._bands
        for held in self._order:
            if bands[held]:
                self._free -= 1
                return bands[held].popitem(last=False)[0]
        raise KeyError("all blocks are in use; no block can be evicted")

    def evictable(self) -> list[Key]:
        """Return the evictable blocks."""
        return [key for band in self._bands for key in band]

    def __contains__(self, key: object) -> bool:
        return any(key in band for band in self._bands)

    def __len__(self) -> int:
        return self._free
