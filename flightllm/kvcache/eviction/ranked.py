"""Blocks by rank, the lowest first: the common base of policies that rank each block separately."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Final, Generic

from flightllm.kvcache.eviction.base import EvictionPolicy, Key

_SLACK: Final = 64
"""Outdated heap entries are removed once they outnumber the valid ones and are more than this."""


class BlockHeap(Generic[Key]):
    """A heap of blocks; a block that is held or ranked again leaves an outdated entry in the heap for a while."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Key]] = []
        self._valid: dict[Key, int] = {}
        self._count = count()

    def put(self, key: Key, rank: Any) -> None:
        """Add a block with this rank; among equal ranks the block that was put first is the lowest."""
        number = self._valid[key] = next(self._count)
        heapq.heappush(self._heap, (rank, number, key))
        if len(self._heap) > 2 * len(self._valid) + _SLACK:
            self._heap = [entry for entry in self._heap if self._valid.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def pop(self) -> Key:
        """Remove and return the block of the lowest rank.

        Raises:
            KeyError: the heap is empty.
        """
        self._drop_outdated()
        if not self._heap:
            raise KeyError("no block is evictable")
        key = heapq.heappop(self._heap)[2]
        del self._valid[key]
        return key

    def lowest(self) -> Any:
        """Return the lowest rank, or None if the heap is empty."""
        self._drop_outdated()
        return self._heap[0][0] if self._heap else None

    def _drop_outdated(self) -> None:
        while self._heap and self._valid.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)

    def hold(self, key: Key) -> None:
        """Remove a block, if it is there."""
        self._valid.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._valid

    def __len__(self) -> int:
        return len(self._valid)


class Ranked(BlockHeap[Key], EvictionPolicy[Key]):
    """A policy whose evictable blocks are in a heap."""

    def evict(self, now: float) -> Key:
        """Return the block of the lowest rank; see `EvictionPolicy.evict`."""
        del now
        return self.pop()
