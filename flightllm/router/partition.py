"""Partition a batch of prompts into runs, one for each replica, so that all replicas are busy equally long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from flightllm.router.prefix_sorted_batch import PrefixSortedBatch
from flightllm.router.segment import find_segment

_UNUSED_SHARE: Final = 0.5
"""The share of a replica's room that can stay unused, so that a run ends where little is computed twice."""
_TOLERANCE: Final = 1e-3
"""The relative error of the level of load that is searched for."""
_MOVES_PER_REPLICA: Final = 4
"""The most segments that are moved at the end, for each replica, to balance the load."""


def partition_prompts(
    batch: PrefixSortedBatch, replicas: Sequence[int], load: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the replica chosen for each prompt of a batch; `load` has the seconds that each replica is busy already.

    First, replicas continue the groups of prompts whose prefix they hold. Then the other prompts are divided into runs.
    At last, segments move from the busiest to the least busy replica.
    """
    assignment = _Assignment(
        np.full(len(batch), -1, dtype=np.int64), {replica: float(load[replica]) for replica in replicas}
    )
    _continue_groups(batch, assignment)
    rest = np.flatnonzero(assignment.chosen < 0)
    if len(rest):
        _divide(batch, rest, assignment)
    _balance(batch, assignment)
    return assignment.chosen


@dataclass(frozen=True, slots=True)
class _Assignment:
    """The replicas chosen so far; changed in place."""

    chosen: NDArray[np.int64]
    """By prompt: the replica, or -1."""
    busy: dict[int, float]
    """By replica: the seconds of all its work."""

    def by_load(self) -> list[int]:
        """Return the replicas, least busy first."""
        return sorted(self.busy, key=lambda replica: (self.busy[replica], replica))


@dataclass(slots=True)
class _Run:
    """Neighbouring prompts for one replica, from `start` up to but without `end`."""

    start: int
    end: int
    replica: int


class _Timeline(NamedTuple):
    """The time at which each prompt of a sequence begins, and the cost of cutting the sequence before the prompt.

    Both arrays have one more entry than there are prompts: the end.

    Example: three prompts take 5, 1 and 5 s; the second one costs 4 s more without the first.

    | position | elapsed | extra |
    |----------|---------|-------|
    | 0        | 0       | 0     |
    | 1        | 5       | 4     |
    | 2        | 6       | 0     |
    | 3 (end)  | 11      | 0     |
    """

    elapsed: NDArray[np.float64]
    """The seconds of all prompts before a position."""
    extra: NDArray[np.float64]
    """The extra seconds of a run that begins at a position."""

    @classmethod
    def of(cls, seconds: NDArray[np.float64], extra: NDArray[np.float64], saved: float = 0.0) -> Self:
        """Make a timeline from the seconds of each prompt; the first prompt takes `saved` seconds less."""
        ends = np.cumsum(seconds)
        if saved:
            ends -= saved
        return cls(np.concatenate(([0.0], ends)), np.append(extra, 0.0))

    def run_seconds(self, start: int, end: int) -> float:
        """Return the seconds of a run."""
        return float(self.elapsed[end] - self.elapsed[start] + self.extra[start])

    def find_end(self, start: int, room: float) -> int:
        """Return the end of a run that begins at `start` and takes at most `room` seconds: `start` if nothing fits.

        The run can leave a part of the room unused to end where the next run costs little extra. In the example, a run
        from 0 with 6 s of room can end at 1 or 2. An end at 1 uses 5 s, 4 of which the next run spends again; an end at
        2 uses 6 s and costs nothing extra. So the run ends at 2.
        """
        elapsed, extra = self
        begin = elapsed[start] - extra[start]
        latest = int(elapsed.searchsorted(begin + room, "right")) - 1
        if latest >= len(elapsed) - 1 or latest <= start:
            return max(start, latest)
        earliest = int(elapsed.searchsorted(begin + (1 - _UNUSED_SHARE) * room))
        earliest = min(latest, max(start + 1, earliest))
        useful = elapsed[earliest : latest + 1] - extra[earliest : latest + 1]
        return latest - int(useful[::-1].argmax())  # of equal ends the latest


def _continue_groups(batch: PrefixSortedBatch, assignment: _Assignment) -> None:
    """Give each replica the groups of prompts of which it holds more than the others, as far as it has time."""
    seconds, extra = batch.seconds(batch.shared_tokens), batch.extra_seconds(batch.shared_tokens)
    busy = assignment.busy
    level = _water_level(list(busy.values()), float(seconds.sum()))
    for run in _held_runs(batch, busy):
        start, end, replica = run.start, run.end, run.replica
        held_tokens = max(0, int(batch.held_tokens[start] - batch.shared_tokens[start]))
        saved = batch.seconds_per_cached_token * held_tokens
        timeline = _Timeline.of(seconds[start:end], extra[start:end], saved)
        count = timeline.find_end(0, level - busy[replica])
        assignment.chosen[start : start + count] = replica
        # The replica holds the beginning, so unlike other runs this one costs nothing extra.
        busy[replica] += float(timeline.elapsed[count])


def _held_runs(batch: PrefixSortedBatch, busy: dict[int, float]) -> list[_Run]:
    """Return the runs of prompts of which one replica holds more than the others, each with this replica."""
    runs: list[_Run] = []
    for position in np.flatnonzero(batch.held_tokens > batch.common_tokens).tolist():
        holders = batch.holders[position]
        if runs and runs[-1].end == position and runs[-1].replica in holders:
            runs[-1].end = position + 1
        elif batch.held_tokens[position] > batch.shared_tokens[position]:
            least_busy = min(holders, key=lambda replica: (busy[replica], replica))
            runs.append(_Run(position, position + 1, least_busy))
    return runs


def _divide(batch: PrefixSortedBatch, rest: NDArray[np.int64], assignment: _Assignment) -> None:
    """Divide the prompts at the positions `rest` into runs, at the least level of load at which all of them fit."""
    shared = batch.shared_among(rest)
    division = _Division(
        _Timeline.of(batch.seconds(shared, rest), batch.extra_seconds(shared, rest)),
        [
            batch.holders[position] if batch.held_tokens[position] > batch.common_tokens[position] else frozenset()
            for position in rest
        ],
        assignment.busy,
        assignment.by_load(),
    )
    for run in division.best_runs():
        assignment.chosen[rest[run.start : run.end]] = run.replica
        assignment.busy[run.replica] += division.timeline.run_seconds(run.start, run.end)


@dataclass(frozen=True, slots=True)
class _Division:
    """Prompts to divide among replicas, at most one run for each replica."""

    timeline: _Timeline
    holders: Sequence[frozenset[int]]
    """By prompt: the replicas that hold more of it than others."""
    busy: dict[int, float]
    replicas: Sequence[int]
    """Least busy first."""

    def best_runs(self) -> list[_Run]:
        """Return the runs at about the least level of load at which all prompts fit.

        The level of perfectly divisible work is a lower bound. From there the level rises in growing steps until all
        prompts fit; then bisection finds the least level.
        """
        low = high = _water_level([self.busy[one] for one in self.replicas], float(self.timeline.elapsed[-1]))
        step = _TOLERANCE * low
        runs = self.runs(high)
        while runs is None:
            low, high, step = high, high + step, 2 * step
            runs = self.runs(high)
        while high - low > _TOLERANCE * high:
            middle = (low + high) / 2
            found = self.runs(middle)
            if found is None:
                low = middle
            else:
                high, runs = middle, found
        return runs

    def runs(self, level: float) -> list[_Run] | None:
        """Return runs that keep no replica busy beyond a level, in seconds; None if not all prompts fit.

        A run goes to the least busy free replica that holds its beginning. Without one, it goes to the least busy free
        replica of all.
        """
        free = dict.fromkeys(self.replicas)
        runs: list[_Run] = []
        start, last = 0, len(self.timeline.elapsed) - 1
        while start < last:
            holders = [replica for replica in self.holders[start] if replica in free]
            replica = min(holders, key=lambda one: self.busy[one]) if holders else next(iter(free), None)
            if replica is None:
                return None
            del free[replica]
            end = self.timeline.find_end(start, level - self.busy[replica])
            if end > start:
                runs.append(_Run(start, end, replica))
                start = end
        return runs


def _balance(batch: PrefixSortedBatch, assignment: _Assignment) -> None:
    """Move segments from the busiest replica to the least busy one, as long as that helps."""
    busy = assignment.busy
    for _ in range(_MOVES_PER_REPLICA * len(busy)):
        busiest, least_busy = max(busy, key=lambda one: busy[one]), min(busy, key=lambda one: busy[one])
        if busy[busiest] - busy[least_busy] <= _TOLERANCE * busy[busiest]:
            return
        positions = np.flatnonzero(assignment.chosen == busiest)
        if not len(positions):
            return
        shared = batch.shared_among(positions)
        seconds, extra = batch.seconds(shared, positions), batch.extra_seconds(shared, positions)
        segment = find_segment(seconds, extra, busy[busiest], busy[least_busy])
        if segment is None:
            return
        assignment.chosen[positions[segment.start : segment.end]] = least_busy
        busy[busiest] -= segment.saved_seconds
        busy[least_busy] += segment.added_seconds


def _water_level(loads: Sequence[float], work: float) -> float:
    """Return the seconds up to which replicas are busy if `work` is added where the load is least, like water.

    Example: three replicas have loads of 1, 4 and 9 s, and 5 s of work are added. The first level that does not exceed
    the next load is right: the first two replicas are busy until 5 s, and the third one gets nothing.

    | load | level if the replicas so far share the work | next load |
    |------|---------------------------------------------|-----------|
    | 1    | (5 + 1) / 1 = 6                             | 4         |
    | 4    | (5 + 1 + 4) / 2 = 5                         | 9         |
    | 9    | (5 + 1 + 4 + 9) / 3 = 6.33                  | ∞         |
    """
    ordered = np.sort(np.array(loads))
    levels = (work + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    next_loads = np.append(ordered[1:], np.inf)
    return float(levels[np.argmax(levels <= next_loads)])
