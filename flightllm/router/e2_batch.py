"""`e2_batch`: assign whole prefix groups ahead of time, balanced by predicted seconds; idle replicas steal at the end.

The planner knows the next prompts. The policy sorts them by prefix and cuts them into one run for each replica. Then
all replicas are busy for an equally long time, earlier work included. The policy cuts where few tokens are computed
twice. Prompts that continue the group of a replica go to this replica. `e2` routes small numbers of prompts one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from flightllm.router.base import Router, create_router
from flightllm.router.fleet import Fleet
from flightllm.router.partition import partition_prompts
from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.replica_queue import Lane
from flightllm.router.steal import steal

FEW: Final = 4
"""Up to this many prompts for each replica are routed one by one."""


class E2Batch:
    """Partition many prompts at once, and let idle replicas steal. One thread at a time.

    `few` is the policy for a few prompts.
    """

    def __init__(self, fleet: Fleet, few: Router) -> None:
        self.fleet = fleet
        self._few = few

    def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
        """Choose and assign a replica for each prompt; see `Router.route`."""
        levels: defaultdict[int, list[RoutedPrompt]] = defaultdict(list)
        for prompt in prompts:
            levels[prompt.priority].append(prompt)
        for _, level in sorted(levels.items()):
            if len(level) <= FEW * len(self.fleet.up):
                self._few.route(level, now)
            else:
                self._partition(level, now)
        return [self.fleet.open[prompt.key].replica for prompt in prompts]

    def steal(self, idle: int, queues: Mapping[int, Lane], now: float) -> list[RoutedPrompt]:
        """Take prompts from the longest queue so that both replicas are balanced; see `Router.steal`."""
        return steal(self.fleet, idle, queues, now)

    def _partition(self, prompts: Sequence[RoutedPrompt], now: float) -> None:
        """Partition prompts of one priority among the replicas; prompts of less urgent priorities come after them."""
        fleet = self.fleet
        batch = PrefixSortedBatch.of(fleet, prompts)
        chosen = partition_prompts(batch, fleet.up, fleet.ahead(prompts[0].priority))
        for prompt, replica in zip(batch.prompts, chosen.tolist(), strict=True):
            fleet.assign(prompt, fleet.insert(prompt), replica, now)


def create(fleet: Fleet) -> E2Batch:
    """Create the policy."""
    return E2Batch(fleet, create_router("e2", fleet))
