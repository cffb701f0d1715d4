"""Which prefixes have become so popular that their prompts wait."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from flightllm.router.tree import Node

_FEWEST: Final = 4
"""Prompts whose mean counts."""
_GROWTH: Final = 2.0


@dataclass(slots=True)
class _Waits:
    """What the prompts of a prefix waited since some time, and their mean before it."""

    since: float
    before: float
    total: float = 0.0
    prompts: int = 0


class HotPrefixes:
    """The mean waiting of each prefix's prompts, compared over halves of the window. One thread at a time."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._waits: OrderedDict[Node, _Waits] = OrderedDict()
        """The one asked for longest ago first."""

    def __len__(self) -> int:
        """Return how many prefixes are followed."""
        return len(self._waits)

    def waited(self, prefix: Node, seconds: float, worth: float, now: float) -> bool:
        """Count a prompt that waits so long; tell whether the mean has doubled, from `worth` seconds or more.

        After that it counts from where it is now.
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
