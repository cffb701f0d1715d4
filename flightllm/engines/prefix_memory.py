"""Remember the texts that an endpoint got, to find how much of a new text its prefix cache can know."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from flightllm.common.text import shared_start

_MOST_TEXTS: Final = 4_096
_MOST_CHARACTERS: Final = 8 << 20
_UNIT_CHARACTERS: Final = 256
"""About the 64 tokens by which a provider that keeps units counts."""


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
        units: bool = False,
    ) -> None:
        """`whole` finds only starts that were added as texts of their own; see `shared`.

        `units` finds only whole texts, and starts that two texts had in common when the second one was added. Such a
        start is cut to whole units.
        """
        self._seconds = seconds
        self._most = most_characters
        self._clock = clock
        self.whole = whole
        self._units = units
        self._common: list[str] = []
        """The common starts of texts, sorted."""
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
        if self._units:
            self._add_common(text)
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
        if not self._used:
            self._common.clear()
        if self.whole:
            whole = len(text) if text in self._used else 0
            return max([whole, *(end for end in ends if text[:end] in self._used)])
        if self._units:
            return max(_longest(self._common, text), _longest(self._sorted, text))
        return self._nearest(text)

    def _nearest(self, text: str) -> int:
        """Return how many characters at its start a text shares with any text."""
        place = bisect_left(self._sorted, text)
        neighbours = self._sorted[max(0, place - 1) : place + 1]
        return max((shared_start(text, one) for one in neighbours), default=0)

    def tokens(self, text: str) -> int:
        """Return the reported tokens of a remembered text; 0 if they are unknown."""
        return self._tokens.get(text, 0)

    def _add_common(self, text: str) -> None:
        """Remember the start that a new text has in common with another one, as long as there is room."""
        common = text[: self._nearest(text) // _UNIT_CHARACTERS * _UNIT_CHARACTERS]
        place = bisect_left(self._common, common)
        if common and text not in self._used and self._common[place : place + 1] != [common]:
            self._common.insert(place, common)
            if len(self._common) > _MOST_TEXTS:
                self._common.clear()

    def knows(self, text: str, end: int) -> bool:
        """Return whether the first `end` characters of a text are there."""
        return self.shared(text, (end,)) > end - (_UNIT_CHARACTERS if self._units else 1)

    def copy(self) -> PrefixMemory:
        """Return a memory of the same texts that changes by itself."""
        copied = PrefixMemory(self._seconds, self._most, self._clock, whole=self.whole, units=self._units)
        copied._common = self._common.copy()
        copied._used, copied._sorted = self._used.copy(), self._sorted.copy()
        copied._characters, copied._tokens = self._characters, self._tokens.copy()
        return copied

    def _forget_oldest(self) -> None:
        text, _ = self._used.popitem(last=False)
        del self._sorted[bisect_left(self._sorted, text)]
        self._tokens.pop(text, None)
        self._characters -= len(text)


def _longest(units: Sequence[str], text: str) -> int:
    """Return the length of the longest of some sorted texts with which a text begins.

    Example: of `a`, `ab` and `abd`, `abc` begins with `ab`. The last text before `abc` is `ab`.
    """
    bound = text
    while bound:
        place = bisect_right(units, bound)
        if not place:
            return 0
        shared = shared_start(units[place - 1], bound)
        if shared == len(units[place - 1]):
            return shared
        bound = text[:shared]
    return 0
