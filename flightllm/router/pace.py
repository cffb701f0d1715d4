"""Keep few bulk prompts in an engine while interactive prompts come, so that these wait for little other work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_SHORT_ANSWER: Final = 8
"""Engines spend most of the time on the prompts, not on the answers, if answers have up to this many tokens."""
_SHORT_PART, _LONG_PART = 1 / 4, 3 / 4
"""The part of an engine's places for bulk prompts with short and with long answers, while interactive ones come."""
_FEWEST: Final = 2
"""An engine has at least so many bulk prompts: it computes one while the answer of another travels."""
_RECENT_SECONDS: Final = 10.0
"""Interactive prompts count as coming for this long after the last query of such prompts."""
_MEMORY: Final = 0.9


class Arrivals:
    """When the last query came whose prompts all have one priority number, by number. Threads can share it.

    The first prompts of a long query can be as urgent as those of a short one. They say nothing about later queries.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._last: dict[int, float] = {}

    def note(self, priority: int) -> None:
        """Note that a query came whose prompts all have this priority number."""
        self._last[priority] = self.clock()

    def comes_before(self, priority: int) -> bool:
        """Return whether a query with a lower number came lately."""
        since = self.clock() - _RECENT_SECONDS
        return any(one < priority and last >= since for one, last in tuple(self._last.items()))


class Pace:
    """How many bulk prompts of one replica can be in its engine. The lock of `Replicas` guards `sent`.

    An engine computes all prompts that it has in common steps, so an interactive prompt waits for the others of its
    step. Few bulk prompts make short steps. Bulk prompts pay for that, because each step has a fixed cost. An engine
    that mostly writes answers has short steps anyway. There, bulk prompts only leave some places free.
    """

    def __init__(self, arrivals: Arrivals | None = None) -> None:
        self.arrivals = arrivals or Arrivals()
        self._answer_tokens: dict[int, float] = {}
        """By priority number, the mean of the expected tokens of answers."""

    def sent(self, priority: int, answer_tokens: float) -> None:
        """Learn from a prompt that is sent to the engine."""
        before = self._answer_tokens.get(priority, answer_tokens)
        self._answer_tokens[priority] = _MEMORY * before + (1 - _MEMORY) * answer_tokens

    def bound(self, priority: int, places: int) -> int | None:
        """Return how many of the engine's places prompts of this priority number can hold now; None if all of them."""
        if not self.arrivals.comes_before(priority):
            return None
        short = self._answer_tokens.get(priority, 0.0) <= _SHORT_ANSWER
        return min(places, max(_FEWEST, int(places * (_SHORT_PART if short else _LONG_PART))))
