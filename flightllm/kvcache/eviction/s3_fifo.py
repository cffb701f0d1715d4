"""`s3_fifo`: a small queue for new blocks before a main queue, both first in, first out (Yang et al., SOSP 2023)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import Final

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.ranked import Ranked

_SMALL: Final = 0.1
"""The fraction of the cache that is reserved for new blocks."""
_MOST_USES: Final = 3
"""Uses after the first are counted up to this number, with two bits in the paper."""
_PROMOTED_USES: Final = 1
"""A new block with more counted uses than this moves to the main queue."""


@dataclass(slots=True)
class _Block:
    """A cached block: its counted uses, its queue, and its place in it."""

    main: bool
    number: int | None = None
    """The place; None until the block is free for the first time."""
    uses: int = 0


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
        self._small: Ranked[Key] = _Queue()
        self._main: Ranked[Key] = _Queue()
        self._gone: OrderedDict[Key, None] = OrderedDict()

    def use(self, use: Use[Key], now: float) -> None:
        """Count the uses of cached blocks, and give new blocks a queue; see `EvictionPolicy.use`."""
        del now
        for key in use.keys:
            block = self._known.get(key)
            if block is None:
                main = key in self._gone
                if main:
                    del self._gone[key]
                self._known[key] = _Block(main)
            else:
                block.uses = min(block.uses + 1, _MOST_USES)
                self._known.move_to_end(key)
        for _ in range(len(self._known) - max(2 * self._blocks, len(use.keys))):
            oldest = next(iter(self._known))
            if oldest in self:
                self._known.move_to_end(oldest)
            else:
                del self._known[oldest]

    def free(self, key: Key, now: float) -> None:
        """Put a block into its place of its queue; see `EvictionPolicy.free`."""
        del now
        block = self._known.get(key)
        if block is None:
            block = self._known[key] = _Block(main=False)
        elif key in self:
            return
        if block.number is None:
            block.number = next(self._count)
        self._queue(block).put(key, block.number)

    def hold(self, key: Key) -> None:
        """Remove a block; it keeps its place. See `EvictionPolicy.hold`."""
        self._small.hold(key)
        self._main.hold(key)

    def evict(self, now: float) -> Key:
        """Return the next block to evict; see `EvictionPolicy.evict`."""
        del now
        while True:
            if self._small and (len(self._small) >= self._most_small or not self._main):
                key = self._small.lowest()[1]
                if self._known[key].uses <= _PROMOTED_USES:
                    del self._known[key]
                    self._remember(key)
                    return key
                block = self._known[key] = _Block(main=True, number=next(self._count))
                self._main.put(key, block.number)
                if len(self._main) <= self._most_main:
                    continue
            key = self._main.lowest()[1]
            block = self._known[key]
            if not block.uses:
                del self._known[key]
                return key
            block.uses, block.number = block.uses - 1, next(self._count)
            self._main.put(key, block.number)

    def _remember(self, key: Key) -> None:
        self._gone[key] = None
        if len(self._gone) > self._most_main:
            self._gone.popitem(last=False)

    def _queue(self, block: _Block) -> Ranked[Key]:
        return self._main if block.main else self._small

    def __contains__(self, key: object) -> bool:
        return key in self._small or key in self._main

    def __len__(self) -> int:
        return len(self._small) + len(self._main)


class _Queue(Ranked[Key]):
    """The evictable blocks of a queue, by their places."""

    def use(self, use: Use[Key], now: float) -> None:
        """Do nothing."""

    def free(self, key: Key, now: float) -> None:
        """Do nothing."""
