"""`s3_fifo`: a small queue for new blocks before a main queue, both first in, first out (Yang et al., SOSP 2023)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Generic

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.ranked import BlockHeap

_SMALL: Final = 0.1
"""The fraction of the cache that is reserved for new blocks."""
_MOST_USES: Final = 3
"""Uses after the first are counted up to this number, with two bits in the paper."""
_PROMOTED_USES: Final = 1
"""A new block with more counted uses than this moves to the main queue."""


@dataclass(slots=True, eq=False)
class _Block:
    """A cached block: whether its queue is the main one, whether it can be evicted, and its place in the queue."""

    main: bool
    free: bool = False
    number: int = -1
    """The place; below 0 until the block is free for the first time."""
    uses: int = 0
    """The counted uses."""


class _Queue(Generic[Key]):
    """The evictable blocks of a queue, by their places. A block that was in use returns to its place."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[Key, int] = OrderedDict()
        """The place of each block that was never in use since it got the place, the first place first."""
        self._returned: BlockHeap[Key] = BlockHeap()
        self._last = -1
        self.size = 0

    def put(self, key: Key, number: int) -> None:
        """Put a block, which is not in the queue, into a place."""
        self.size += 1
        if number > self._last:
            self._blocks[key] = self._last = number
        else:
            self._returned.put(key, number)

    def pop(self) -> Key:
        """Remove and return the first block.

        Raises:
            KeyError: the queue is empty.
        """
        self.size -= bool(self.size)
        if self._returned and (not self._blocks or self._returned.lowest() < next(iter(self._blocks.values()))):
            return self._returned.pop()
        return self._blocks.popitem(last=False)[0]

    def hold(self, key: Key) -> None:
        """Remove a block of the queue."""
        self.size -= 1
        if self._blocks.pop(key, None) is None:
            self._returned.hold(key)

    def __contains__(self, key: object) -> bool:
        return key in self._blocks or key in self._returned


class S3Fifo(EvictionPolicy[Key]):
    """The S3-FIFO policy.

    A new block enters the small queue, or the main queue if it was evicted from the small queue not long ago. At the
    end of the small queue, a block that was used again moves to the main queue, and others are evicted. At the end of
    the main queue, a block that was used again enters that queue again, with one use less.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._most_small = max(1, int(_SMALL * blocks))
        self._most_main = max(1, blocks - self._most_small)
        self._count = count()
        self._known: OrderedDict[Key, _Block] = OrderedDict()
        """The cached blocks, the one whose last use is the oldest first; at most twice as many as the cache has.

        Because of this limit, blocks that are lost without a call of `evict` are forgotten too.
        """
        self._small: _Queue[Key] = _Queue()
        self._main: _Queue[Key] = _Queue()
        self._gone: OrderedDict[Key, None] = OrderedDict()

    def use(self, use: Use[Key], now: float) -> None:
        """Count the uses of cached blocks, and give new blocks a queue; see `EvictionPolicy.use`."""
        del now
        known, gone = self._known, self._gone
        for key in use.keys:
            block = known.get(key)
            if block is None:
                main = key in gone
                if main:
                    del gone[key]
                known[key] = _Block(main)
            else:
                if block.uses < _MOST_USES:
                    block.uses += 1
                known.move_to_end(key)
        for _ in range(len(known) - max(2 * self._blocks, len(use.keys))):
            oldest, block = next(iter(known.items()))
            if block.free:
                known.move_to_end(oldest)
            else:
                del known[oldest]

    def free(self, key: Key, now: float) -> None:
        """Put a block into its place of its queue; see `EvictionPolicy.free`."""
        self.free_all((key,), now)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Put blocks into their places, the last block first; see `EvictionPolicy.free_all`."""
        del now
        known = self._known
        for key in reversed(keys):
            block = known.get(key)
            if block is None:
                block = known[key] = _Block(main=False)
            elif block.free:
                continue
            if block.number < 0:
                block.number = next(self._count)
            block.free = True
            (self._main if block.main else self._small).put(key, block.number)

    def hold(self, key: Key) -> None:
        """Remove a block; it keeps its place. See `EvictionPolicy.hold`."""
        block = self._known.get(key)
        if block is not None and block.free:
            block.free = False
            (self._main if block.main else self._small).hold(key)

    def evict(self, now: float) -> Key:
        """Return the next block to evict; see `EvictionPolicy.evict`."""
        del now
        known, small, main = self._known, self._small, self._main
        while True:
            if small.size and (small.size >= self._most_small or not main.size):
                key = small.pop()
                block = known[key]
                if block.uses <= _PROMOTED_USES:
                    del known[key]
                    self._remember(key)
                    return key
                block.main, block.number, block.uses = True, next(self._count), 0
                main.put(key, block.number)
                if main.size <= self._most_main:
                    continue
            key = main.pop()
            block = known[key]
            if not block.uses:
                del known[key]
                return key
            block.uses, block.number = block.uses - 1, next(self._count)
            main.put(key, block.number)

    def _remember(self, key: Key) -> None:
        self._gone[key] = None
        if len(self._gone) > self._most_main:
            self._gone.popitem(last=False)

    def __contains__(self, key: object) -> bool:
        return key in self._small or key in self._main

    def __len__(self) -> int:
        return self._small.size + self._main.size
