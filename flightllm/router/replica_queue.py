"""The queue of one replica, shared by all queries: cached prompts come earlier, and no prompt starves."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Final

from flightllm.router.pace import Pace
from flightllm.router.prompt import RoutedPrompt

OVERTAKES: Final = 512
"""How many earlier prompts of a lane a wholly cached prompt can overtake. So no prompt of a lane starves."""
_GROUPS: Final = 10
"""Lanes are compared by groups of cached shares, as Preble does (P). Lanes in one group are equal."""
LEAST_URGENT: Final = 1 << 62
"""The priority number of a lane without prompts."""
_REFRESHED: Final = 32
"""The most runs whose shares one draw updates. With more runs, the draws update them in turn."""


@dataclass(slots=True, eq=False)
class _Run:
    """Prompts of one query that were routed together, in prefix order; all have one priority."""

    number: int
    """The number of the first prompt. The prompts of a lane are numbered as they come."""
    priority: int
    prompts: deque[RoutedPrompt]
    share: float = 0.0
    """The cached share of the first prompt, as of the last update."""

    @property
    def order(self) -> tuple[int, float]:
        """Return the key by which runs are drawn, the least first."""
        return self.priority, self.number - OVERTAKES * self.share


class ReplicaQueue:
    """The waiting prompts of one replica. Each query has a lane in it. The lock of `Replicas` guards it.

    Prompts with the lowest `priority` number come first. A wave of a query's prompts is a *run*, and keeps its order:
    its prompts share the most with their neighbours. A *share* is the part of a run's first prompt that the replica
    holds at present.

    - The runs of one lane come in the order of arrival, but each moves ahead by `OVERTAKES` prompts times its share.
    - Of several lanes, the one with the highest share comes first. `Shares` keeps places for the other lanes.

    Preble (section 3.3) gives each group of shares some turns instead. But if two batches take turns, both end late. If
    one batch precedes the other, only the other ends late.

    `share` returns the share of a prompt's tokens that is cached now, from 0 to 1. `pace` bounds the prompts that the
    engine has while more urgent prompts come.
    """

    def __init__(
        self, share: Callable[[RoutedPrompt], float], lock: RLock | None = None, pace: Pace | None = None
    ) -> None:
        self._share = share
        self.pace = pace or Pace()
        self._lock = lock or RLock()
        self._lanes: list[Lane] = []
        self._updated = 0

    def __len__(self) -> int:
        """Return the number of waiting prompts."""
        return sum(map(len, self._lanes))

    def open(self, user: str = "") -> Lane:
        """Return a new lane for a query of this user; `Lane.close` removes it."""
        lane = Lane(self, user)
        self._lanes.append(lane)
        return lane

    def _ranks(self, lanes: Sequence[Lane]) -> list[tuple[int, int]]:
        """Update the shares unless another thread has the lock, and return the key by which each lane is compared."""
        if len(lanes) > 1 and self._lock.acquire(blocking=False):
            try:
                self._update(run for lane in lanes for run in lane.runs)
            finally:
                self._lock.release()
        return [lane.rank for lane in lanes]

    def _pop(self, lane: Lane) -> RoutedPrompt | None:
        """Remove and return the next prompt of a lane."""
        if not lane.runs:
            return None
        priority = lane.priority
        self._update(run for run in lane.runs if run.priority == priority)
        chosen = min(lane.runs, key=lambda run: run.order)
        prompt = chosen.prompts.popleft()
        chosen.number += 1
        if not chosen.prompts:
            lane.runs.remove(chosen)
        return prompt

    def _update(self, runs: Iterable[_Run]) -> None:
        """Look up the present shares of runs; the caller holds the lock."""
        found = [run for run in runs if run.prompts]
        if len(found) > _REFRESHED:
            begin = self._updated = (self._updated + _REFRESHED) % len(found)
            found = (found + found)[begin : begin + _REFRESHED]
        for run in found:
            run.share = self._share(run.prompts[0])

    def _close(self, lane: Lane) -> None:
        if lane in self._lanes:
            self._lanes.remove(lane)


class Lane:
    """The waiting prompts of one query at one replica. The lock of `Replicas` guards it."""

    def __init__(self, queue: ReplicaQueue, user: str) -> None:
        self.queue = queue
        self.user = user
        self.runs: list[_Run] = []
        self._pushed = 0

    def __len__(self) -> int:
        """Return the number of waiting prompts."""
        return sum(len(run.prompts) for run in self.runs)

    @property
    def priority(self) -> int:
        """Return the priority number of the next prompt; any thread can ask."""
        return min((run.priority for run in tuple(self.runs)), default=LEAST_URGENT)

    @property
    def rank(self) -> tuple[int, int]:
        """Return the key by which lanes are compared, the least first: the priority, and the group of the share."""
        heads = tuple(self.runs)
        if not heads:
            return LEAST_URGENT, 0
        head = min(heads, key=lambda run: run.order)
        return head.priority, -int(head.share * _GROUPS)

    def bound(self, places: int) -> int | None:
        """Return how many of an engine's places prompts of this priority can hold now; None if all of them."""
        return self.queue.pace.bound(self.priority, places)

    def push(self, prompts: Sequence[RoutedPrompt]) -> None:
        """Add prompts that were routed together, in the order in which to send them."""
        levels: defaultdict[int, deque[RoutedPrompt]] = defaultdict(deque)
        for prompt in prompts:
            levels[prompt.priority].append(prompt)
        added = []
        for priority, level in sorted(levels.items()):
            added.append(_Run(self._pushed, priority, level))
            self._pushed += len(level)
        self.runs += added
        self.queue._update(added)  # noqa: SLF001 - a queue and its lanes are one

    def pop(self) -> RoutedPrompt | None:
        """Remove and return the next prompt of this lane; None if the lane is empty."""
        return self.queue._pop(self)  # noqa: SLF001 - as above

    def ranks(self, lanes: Sequence[Lane]) -> list[tuple[int, int]]:
        """Return a key for each of some lanes of the queue: the prompt of the lane with the least comes next.

        Any thread can call this. It does not wait for the lock: if another thread has it, the shares are those of the
        last call.
        """
        return self.queue._ranks(lanes)  # noqa: SLF001 - as above

    def waiting(self) -> list[RoutedPrompt]:
        """Return the waiting prompts by priority number, then in the order of arrival."""
        return [
            prompt for run in sorted(self.runs, key=lambda one: (one.priority, one.number)) for prompt in run.prompts
        ]

    def take(self, prompts: Iterable[RoutedPrompt]) -> None:
        """Remove the given prompts."""
        gone = {prompt.key for prompt in prompts}
        for run in self.runs:
            run.prompts = deque(prompt for prompt in run.prompts if prompt.key not in gone)
        self.runs = [run for run in self.runs if run.prompts]

    def close(self) -> None:
        """Remove the lane with its prompts from the queue. Idempotent."""
        self.runs = []
        self.queue._close(self)  # noqa: SLF001 - as above
