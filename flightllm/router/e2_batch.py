"""`e2_batch`: assign whole prefix groups to replicas in advance, balance the predicted time, and steal at the end.

The planner knows the next prompts. It sorts them by the prefix tree and cuts them into one run for each replica. With
their earlier work included, all replicas then are busy for the same time. The cuts are at places where few tokens are
computed twice. Prompts that continue a replica's group go to this replica. `e2` routes small numbers of prompts.
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
"""Up to this many prompts for each replica, `e2` routes each prompt by itself."""


class E2Batch:
    """A policy that spreads many prompts at once, and moves prompts to replicas that have run dry.

    The policy `few` routes small numbers of prompts. One thread at a time.
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
        """Take prompts from the longest queue so that both replicas are balanced; see `Router.steal`."""
        return steal(self.fleet, idle, queues, now)

    def _spread(self, prompts: Sequence[Prompt], now: float) -> None:
        """Divide prompts of one priority among the replicas, after the more urgent prompts that they have."""
        fleet = self.fleet
        line = Line.of(fleet, prompts)
        ahead = fleet.ahead(prompts[0].priority)
        for prompt, replica in zip(line.prompts, spread(line, fleet.up, ahead).tolist(), strict=True):
            fleet.assign(prompt, fleet.insert(prompt), replica, now)


def create(fleet: Fleet) -> E2Batch:
    """Return the policy."""
    return E2Batch(fleet, create_router("e2", fleet))
