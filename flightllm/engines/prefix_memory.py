"""Remember the texts that an endpoint got, to find how much of a new text its prefix cache can know."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from flightllm.common.text import shared_start

_MOST_TEXTS: Final = 4_096
_MOST_CHARACTERS: Final = 8 << 20


class PrefixMemory:
    """The latest texts, each for `seconds` after its last use. Not thread-safe.

    The texts are sorted, so the text with the longest common start is a neighbour of the place of a new text.
    """

    def __init__(
        self,
        seconds: float,
        most_characters: int = _MOST_CHARACTERS,
        clock: Callable[[], float] = time.monotonic,
        *,
        whole: bool = False,
    ) -> None:
        """`whole` finds only starts that were added as texts of their own; see `shared`."""
        self._seconds = seconds
        self._most = most_characters
        self._clock = clock
        self.whole = whole
        self._used: OrderedDict[str, float] = OrderedDict()
        """The time of the last use of each text, the oldest first."""
        self._sorted: list[str] = []
        self._tokens: dict[str, int] = {}
        """The tokens of texts, where the endpoint reported them."""
        self._characters = 0

    def add(self, text: str, tokens: int = 0) -> None:
        """Remember a text, and its `tokens` if they are known; forget the oldest texts if there are too many."""
        if tokens:
            self._tokens[text] = tokens
        if self._used.pop(text, None) is None:
            insort(self._sorted, text)
            self._characters += len(text)
        self._used[text] = self._clock()
        while len(self._used) > _MOST_TEXTS or (self._characters > self._most and len(self._used) > 1):
            self._forget_oldest()

    def shared(self, text: str, ends: Sequence[int] = ()) -> int:
        """Return how many characters at its start a text shares with a remembered text.

        With `whole`, the whole text and its starts up to `ends` are looked for; the longest one counts.
        """
        now = self._clock()
        while self._used and now - next(iter(self._used.values())) > self._seconds:
            self._forget_oldest()
        if self.whole:
            whole = len(text) if text in self._used else 0
            return max([whole, *(end for end in ends if text[:end] in self._used)])
        place = bisect_left(self._sorted, text)
        neighbours = self._sorted[max(0, place - 1) : place + 1]
        return max((shared_start(text, one) for one in neighbours), default=0)

    def tokens(self, text: str) -> int:
        """Return the reported tokens of a remembered text; 0 if they are unknown."""
        return self._tokens.get(text, 0)

    def knows(self, text: str, end: int) -> bool:
        """Return whether the first `end` characters of a text are there."""
        return self.shared(text, (end,)) >= end

    def copy(self) -> PrefixMemory:
        """Return a memory of the same texts that changes by itself."""
        copied = PrefixMemory(self._seconds, self._most, self._clock, whole=self.whole)
        copied._used, copied._sorted = self._used.copy(), self._sorted.copy()
        copied._characters, copied._tokens = self._characters, self._tokens.copy()
        return copied

    def _forget_oldest(self) -> None:
        text, _ = self._used.popitem(last=False)
        del self._sorted[bisect_left(self._sorted, text)]
        self._tokens.pop(text, None)
        self._characters -= len(text)
