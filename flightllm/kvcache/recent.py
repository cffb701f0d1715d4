"""Keys of chunks that are remembered for a while."""

import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Final

_MOST: Final = 10_000


class RecentKeys:
    """The keys added last: at most `most`, each for `seconds`. Only one thread can use it."""

    def __init__(self, seconds: float = inf, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._until: OrderedDict[str, float] = OrderedDict()

    def add(self, key: str) -> None:
        """Add a key, or restart its time."""
        self._until[key] = self._clock() + self._seconds
        self._until.move_to_end(key)
        if len(self._until) > self._most:
            self._until.popitem(last=False)

    def discard(self, key: str) -> None:
        """Forget a key, if it is present."""
        self._until.pop(key, None)

    def __contains__(self, key: str) -> bool:
        return self._until.get(key, -inf) > self._clock()
