"""Detect prefixes that have become so popular that their prompts wait."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from flightllm.router.tree import Node

_FEWEST: Final = 4
"""The least number of prompts for a mean to count."""
_GROWTH: Final = 2.0


@dataclass(slots=True)
class _Waits:
    """The waiting times of a prefix's prompts since `since`, and the mean before that time. All in seconds."""

    since: float
    before: float
    total: float = 0.0
    prompts: int = 0


class HotPrefixes:
    """The mean waiting time of each prefix's prompts, compared over halves of the window. One thread at a time."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._waits: OrderedDict[Node, _Waits] = OrderedDict()
        """By prefix; the prefix without a prompt for the longest time is first."""

    def __len__(self) -> int:
        """Return the number of prefixes with recorded waiting times."""
        return len(self._waits)

    def waited(self, prefix: Node, seconds: float, worth: float, now: float) -> bool:
        """Count a prompt that waits `seconds`; return whether the mean has doubled, from `worth` seconds or more.

        After a doubling, later means are compared with the present one.
        """
        waits = self._waits.setdefault(prefix, _Waits(now, 0.0))
        self._waits.move_to_end(prefix)
        if now - waits.since > self._window / 2:
            recent = now - waits.since < self._window and waits.prompts
            waits.before = waits.total / waits.prompts if recent else 0.0
            waits.since, waits.total, waits.prompts = now, 0.0, 0
        waits.total += seconds
        waits.prompts += 1
        mean = waits.total / waits.prompts
        self._forget(now)
        if waits.prompts < _FEWEST or mean < _GROWTH * max(waits.before, worth):
            return False
        waits.since, waits.before, waits.total, waits.prompts = now, mean, 0.0, 0
        return True

    def _forget(self, now: float) -> None:
        while self._waits:
            prefix, waits = next(iter(self._waits.items()))
            if now - waits.since <= self._window:
                return
            del self._waits[prefix]
