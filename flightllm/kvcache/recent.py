"""Keys of chunks that are remembered for a while."""

import time
from collections.abc import Callable
from math import inf
from typing import Final

from flightllm.common.newest import Newest

_MOST: Final = 10_000


class RecentKeys:
    """The keys added last: at most `most`, each for `seconds`. Only one thread can use it."""

    def __init__(self, seconds: float = inf, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._until = Newest[str, float](most)

    def add(self, key: str) -> None:
        """Add a key, or restart its time."""
        self._until[key] = self._clock() + self._seconds

    def discard(self, key: str) -> None:
        """Forget a key, if it is present."""
        self._until.pop(key, None)

    def __contains__(self, key: str) -> bool:
        return self._until.get(key, -inf) > self._clock()
