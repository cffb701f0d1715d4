"""The work that replicas were given within a time window, finished or not."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class RecentLoad:
    """The seconds of work by replica; work counts for `window_seconds`. One thread at a time."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._given: deque[tuple[float, int, float]] = deque()
        self._sums: NDArray[np.float64] = np.zeros(0)

    def add(self, replica: int, seconds: float, now: float) -> None:
        """Count some work as given to a replica at the time `now`."""
        if replica >= len(self._sums):
            self._sums = np.pad(self._sums, (0, replica + 1 - len(self._sums)))
        self._sums[replica] += seconds
        self._given.append((now + self._window, replica, seconds))

    def load(self, unfinished: NDArray[np.float64], now: float) -> NDArray[np.float64]:
        """Return the sum of each replica; infinity where `unfinished` is infinite, because the replica is down."""
        while self._given and self._given[0][0] <= now:
            _, replica, seconds = self._given.popleft()
            self._sums[replica] = max(0.0, self._sums[replica] - seconds)
        sums = np.pad(self._sums, (0, len(unfinished) - len(self._sums)))
        sums[np.isinf(unfinished)] = np.inf
        return sums
