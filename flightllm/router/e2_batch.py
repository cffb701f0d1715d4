"""`e2_batch`: whole prefix groups are given out ahead, in sizes that balance predicted time, and stolen at the end.

The planner knows the prompts to come. They are lined up by the tree and cut into one run for each replica, so long that
all are busy equally long with what they had before, at places where little is computed twice. What continues a group
that a replica works on goes there. A few prompts are routed one by one, as by `e2`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from flightllm.router.base import Prompt, Router, create_router
from flightllm.router.fleet import Fleet
from flightllm.router.line import Line
from flightllm.router.local_queue import LocalQueue
from flightllm.router.spread import spread
from flightllm.router.steal import steal

FEW: Final = 4
"""Prompts for each replica, up to which each is routed by itself."""


class E2Batch:
    """Spread many prompts at once, and move them where a replica has none left. One thread at a time.

    `few` routes a few.
    """

    def __init__(self, fleet: Fleet, few: Router) -> None:
        self.fleet = fleet
        self._few = few

    def route(self, prompts: Sequence[Prompt], now: float) -> list[int]:
        """Choose and assign a replica for each prompt; see `Router.route`."""
        levels: defaultdict[int, list[Prompt]] = defaultdict(list)
        for prompt in prompts:
            levels[prompt.priority].append(prompt)
        for _, level in sorted(levels.items()):
            if len(level) <= FEW * len(self.fleet.up):
                self._few.route(level, now)
            else:
                self._spread(level, now)
        return [self.fleet.open[prompt.key].replica for prompt in prompts]

    def steal(self, idle: int, queues: Mapping[int, LocalQueue], now: float) -> list[Prompt]:
        """Take from the longest queue what balances both; see `Router.steal`."""
        return steal(self.fleet, idle, queues, now)

    def _spread(self, prompts: Sequence[Prompt], now: float) -> None:
        """Divide prompts of one priority, which go before those of lower ones."""
        fleet = self.fleet
        line = Line.of(fleet, prompts)
        ahead = fleet.ahead(prompts[0].priority)
        for prompt, replica in zip(line.prompts, spread(line, fleet.up, ahead).tolist(), strict=True):
            fleet.assign(prompt, fleet.insert(prompt), replica, now)


def create(fleet: Fleet) -> E2Batch:
    """Make the policy."""
    return E2Batch(fleet, create_router("e2", fleet))
