"""Find the smallest of neighbouring numbers, for many ranges at once."""

import numpy as np
from numpy.typing import NDArray


class RangeMinimum:
    """A sparse table of minima: for each power of two, the minimum of each range of this length."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        self._levels = [numbers]
        length = 1
        while 2 * length <= len(numbers):
            last = self._levels[-1]
            self._levels.append(np.minimum(last[:-length], last[length:]))
            length *= 2

    def between(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the minimum of the numbers from `low` + 1 to `high` of each pair; `low` must be less than `high`."""
        found = np.empty(len(low))
        level = np.frexp((high - low).astype(np.float64))[1] - 1
        for power in range(int(level.max(initial=-1)) + 1):
            here = np.flatnonzero(level == power)
            least = self._levels[power]
            found[here] = np.minimum(least[low[here] + 1], least[high[here] + 1 - (1 << power)])
        return found
