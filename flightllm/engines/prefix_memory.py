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
_UNIT_CHARACTERS: Final = 512
"""More characters than a unit of 64 tokens has: a start counts as known if all but its last unit is there."""
_CUT_CHARACTERS: Final = 256
"""About the 64 tokens of a unit, where no text can be counted."""


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
        cut: Callable[[str, int], int] | None = None,
    ) -> None:
        """`whole` finds only starts that were added as texts of their own; see `shared`.

        `units` finds only whole texts, and starts that two texts had in common when the second one was added. Both are
        cut to whole units: `cut` returns where the last unit ends in the first characters of a text.
        """
        self._seconds = seconds
        self._most = most_characters
        self._clock = clock
        self.whole = whole
        self._units = units
        self._cut = cut or _by_characters
        self._common: list[str] = []
        """The units of texts and of their common starts, sorted."""
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
        if self._units and text not in self._used:
            for characters in (self._nearest(text), len(text)):
                self._add_unit(text[: self._cut(text, characters)])
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
            return _longest(self._common, text)
        return self._nearest(text)

    def _nearest(self, text: str) -> int:
        """Return how many characters at its start a text shares with any text."""
        place = bisect_left(self._sorted, text)
        neighbours = self._sorted[max(0, place - 1) : place + 1]
        return max((shared_start(text, one) for one in neighbours), default=0)

    def tokens(self, text: str) -> int:
        """Return the reported tokens of a remembered text; 0 if they are unknown."""
        return self._tokens.get(text, 0)

    def _add_unit(self, unit: str) -> None:
        """Remember the start of a text that can be found again."""
        place = bisect_left(self._common, unit)
        if unit and self._common[place : place + 1] != [unit]:
            if len(self._common) >= 2 * _MOST_TEXTS:
                self._common.clear()
                place = 0
            self._common.insert(place, unit)

    def knows(self, text: str, end: int) -> bool:
        """Return whether the first `end` characters of a text are there."""
        return self.shared(text, (end,)) > end - (_UNIT_CHARACTERS if self._units else 1)

    def copy(self) -> PrefixMemory:
        """Return a memory of the same texts that changes by itself."""
        copied = PrefixMemory(
            self._seconds, self._most, self._clock, whole=self.whole, units=self._units, cut=self._cut
        )
        copied._common = self._common.copy()
        copied._used, copied._sorted = self._used.copy(), self._sorted.copy()
        copied._characters, copied._tokens = self._characters, self._tokens.copy()
        return copied

    def _forget_oldest(self) -> None:
        text, _ = self._used.popitem(last=False)
        del self._sorted[bisect_left(self._sorted, text)]
        self._tokens.pop(text, None)
        self._characters -= len(text)


def _by_characters(text: str, characters: int) -> int:
    """Return where the last unit ends by the usual characters of a unit; a whole text stays whole."""
    return characters if characters == len(text) else characters // _CUT_CHARACTERS * _CUT_CHARACTERS


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
