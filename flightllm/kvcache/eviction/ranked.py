"""Blocks by rank, the lowest first: the common base of policies that rank each block separately."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from flightllm.kvcache.eviction.base import EvictionPolicy, Key

_SLACK = 64
"""Outdated heap entries are removed once they outnumber the valid ones and are more than this."""


class Ranked(EvictionPolicy[Key]):
    """A heap of blocks; a block that is held or ranked again leaves an outdated entry in the heap for a while."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Key]] = []
        self._valid: dict[Key, int] = {}
        self._count = count()

    def put(self, key: Key, rank: Any) -> None:
        """Make a block evictable with this rank; among equal ranks the block that was put first is evicted first."""
        number = self._valid[key] = next(self._count)
        heapq.heappush(self._heap, (rank, number, key))
        if len(self._heap) > 2 * len(self._valid) + _SLACK:
            self._heap = [entry for entry in self._heap if self._valid.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def lowest(self) -> tuple[Any, Key]:
        """Remove the block of the lowest rank; return its rank and key.

        Raises:
            KeyError: no block is evictable.
        """
        while self._heap:
            rank, number, key = heapq.heappop(self._heap)
            if self._valid.get(key) == number:
                del self._valid[key]
                return rank, key
        raise KeyError("no block is evictable")

    def hold(self, key: Key) -> None:
        """Remove a block; see `EvictionPolicy.hold`."""
        self._valid.pop(key, None)

    def evict(self, now: float) -> Key:
        """Return the block of the lowest rank; see `EvictionPolicy.evict`."""
        del now
        return self.lowest()[1]

    def __contains__(self, key: object) -> bool:
        return key in self._valid

    def __len__(self) -> int:
        return len(self._valid)
