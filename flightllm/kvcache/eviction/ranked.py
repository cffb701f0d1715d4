"""Blocks by rank, the lowest first; what policies that rank each block by itself have in common."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from flightllm.kvcache.eviction.base import Key, Policy

_SLACK = 64
"""Ranks that do not hold any more are dropped once they are more than the others, and so many."""


class Ranked(Policy[Key]):
    """A heap of blocks; one that is held, or ranked anew, leaves its old place in it behind for a while."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, Key]] = []
        self._valid: dict[Key, int] = {}
        self._count = count()

    def put(self, key: Key, rank: Any) -> None:
        """Count a block among those that may go; of equal ranks the one that came first goes first."""
        number = self._valid[key] = next(self._count)
        heapq.heappush(self._heap, (rank, number, key))
        if len(self._heap) > 2 * len(self._valid) + _SLACK:
            self._heap = [entry for entry in self._heap if self._valid.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def lowest(self) -> tuple[Any, Key]:
        """Take out the block of the lowest rank; return both.

        Raises:
            KeyError: there is none.
        """
        while self._heap:
            rank, number, key = heapq.heappop(self._heap)
            if self._valid.get(key) == number:
                del self._valid[key]
                return rank, key
        raise KeyError("no block may go")

    def hold(self, key: Key) -> None:
        """Take a block out; see `Policy.hold`."""
        self._valid.pop(key, None)

    def evict(self, now: float) -> Key:
        """Return the block of the lowest rank; see `Policy.evict`."""
        del now
        return self.lowest()[1]

    def __contains__(self, key: object) -> bool:
        return key in self._valid

    def __len__(self) -> int:
        return len(self._valid)
