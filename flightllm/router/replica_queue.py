"""The queue of one replica, shared by all queries: cached prompts come earlier, and no prompt starves."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import RLock
from typing import Final

from flightllm.router.pace import Pace
from flightllm.router.prompt import RoutedPrompt

GROUPS: Final = 10
"""Priority groups by cached share (Preble, P)."""
LEAST_URGENT: Final = 1 << 62
"""The priority number of a lane without prompts."""
_REFRESHED: Final = 32
"""The most runs whose groups one draw updates. With more runs, the draws update them in turn."""


@dataclass(slots=True, eq=False)
class _Run:
    """Prompts of one query that were routed together, in prefix order; all have one priority."""

    number: int
    priority: int
    prompts: deque[RoutedPrompt]
    group: int = 0
    """The group of the first prompt, as of the last update."""


class ReplicaQueue:
    """The waiting prompts of one replica. Each query has a lane in it. The lock of `Replicas` guards it.

    Prompts with the lowest `priority` number come first. A wave of a query's prompts is a *run*, and keeps its order:
    its prompts share the most with their neighbours. Runs of one priority are in groups by the share of their first
    prompt that the replica holds at present. Draws take turns among all groups, in proportion to each group's rank
    (Preble, section 3.3), so that no group starves.

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
        self._credit: defaultdict[int, list[float]] = defaultdict(lambda: [0.0] * GROUPS)
        """By priority number, the credit of each group."""
        self._numbers = count()
        self._updated = 0

    def __len__(self) -> int:
        """Return the number of waiting prompts."""
        return sum(map(len, self._lanes))

    def open(self, user: str = "") -> Lane:
        """Return a new lane for a query of this user; `Lane.close` removes it."""
        lane = Lane(self, user)
        self._lanes.append(lane)
        return lane

    def pop(self) -> RoutedPrompt | None:
        """Remove and return the next prompt of all lanes; None if the queue is empty."""
        lanes = [lane for lane in self._lanes if lane]
        return lanes[self.first(lanes)].pop() if lanes else None

    def first(self, lanes: Sequence[Lane]) -> int:
        """Return the place of the lane whose prompt comes next. Of equals, the first one comes next.

        Any thread can call this. It does not wait for the lock: if another thread has it, the groups are those of the
        last call.
        """
        if len(lanes) == 1:
            return 0
        if self._lock.acquire(blocking=False):
            try:
                self._update(run for lane in lanes for run in lane.runs)
            finally:
                self._lock.release()
        runs = [(run, place) for place, lane in enumerate(lanes) for run in tuple(lane.runs)]
        if not runs:
            return 0
        priority = min(run.priority for run, _ in runs)
        level = [(run, place) for run, place in runs if run.priority == priority]
        group = self._drawn(priority, {run.group for run, _ in level})
        return next(place for run, place in level if run.group == group)

    def _pop(self, lane: Lane) -> RoutedPrompt | None:
        """Remove and return the next prompt of a lane, and pay for it."""
        if not lane.runs:
            return None
        priority = lane.priority
        level = [run for run in lane.runs if run.priority == priority]
        self._update(level)
        group = self._drawn(priority, {run.group for run in level})
        chosen = next(run for run in level if run.group == group)
        self._pay(priority, group)
        prompt = chosen.prompts.popleft()
        if not chosen.prompts:
            lane.runs.remove(chosen)
        if not any(run.group == group for one in self._lanes for run in one.runs if run.priority == priority):
            self._credit[priority][group] = 0.0
        return prompt

    def _update(self, runs: Iterable[_Run]) -> None:
        """Put runs into the groups of their present shares; the caller holds the lock."""
        found = [run for run in runs if run.prompts]
        if len(found) > _REFRESHED:
            begin = self._updated = (self._updated + _REFRESHED) % len(found)
            found = (found + found)[begin : begin + _REFRESHED]
        for run in found:
            run.group = _group(self._share(run.prompts[0]))

    def _drawn(self, priority: int, groups: Collection[int]) -> int:
        """Return the group whose turn it is: the one that has the most credit after each gains its rank."""
        credit = self._credit[priority]
        return max(groups, key=lambda group: (credit[group] + group + 1, group))

    def _pay(self, priority: int, group: int) -> None:
        """Count a draw: each nonempty group gains its rank as credit; the drawn group pays what all gained."""
        credit = self._credit[priority]
        filled = {run.group for lane in self._lanes for run in lane.runs if run.priority == priority}
        for one in filled:
            credit[one] += one + 1
        credit[group] -= sum(one + 1 for one in filled)

    def _opened(self, prompts: Sequence[RoutedPrompt]) -> list[_Run]:
        """Return new runs for prompts that were routed together: one for each priority."""
        levels: defaultdict[int, deque[RoutedPrompt]] = defaultdict(deque)
        for prompt in prompts:
            levels[prompt.priority].append(prompt)
        runs = [_Run(next(self._numbers), priority, levels[priority]) for priority in sorted(levels)]
        self._update(runs)
        return runs

    def _close(self, lane: Lane) -> None:
        if lane in self._lanes:
            self._lanes.remove(lane)


class Lane:
    """The waiting prompts of one query at one replica. The lock of `Replicas` guards it."""

    def __init__(self, queue: ReplicaQueue, user: str) -> None:
        self.queue = queue
        self.user = user
        self.runs: list[_Run] = []

    def __len__(self) -> int:
        """Return the number of waiting prompts."""
        return sum(len(run.prompts) for run in self.runs)

    @property
    def priority(self) -> int:
        """Return the priority number of the next prompt; any thread can ask."""
        return min((run.priority for run in tuple(self.runs)), default=LEAST_URGENT)

    def bound(self, places: int) -> int | None:
        """Return how many of an engine's places prompts of this priority can hold now; None if all of them."""
        return self.queue.pace.bound(self.priority, places)

    def push(self, prompts: Sequence[RoutedPrompt]) -> None:
        """Add prompts that were routed together, in the order in which to send them."""
        self.runs += self.queue._opened(prompts)  # noqa: SLF001 - a queue and its lanes are one

    def pop(self) -> RoutedPrompt | None:
        """Remove and return the next prompt of this lane; None if the lane is empty."""
        return self.queue._pop(self)  # noqa: SLF001 - as above

    def first(self, lanes: Sequence[Lane]) -> int:
        """Return the place of the lane whose prompt comes next; see `ReplicaQueue.first`."""
        return self.queue.first(lanes)

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


def _group(share: float) -> int:
    return min(GROUPS - 1, max(0, int(share * GROUPS)))
