"""Decide the number of replicas: more when work piles up, fewer when some have had little to do for long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_EASE: Final = 0.5
"""A replica is removed only if the rest then have at most this part of the load that would add a replica."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The bounds on the number of replicas, and the conditions for changes.

    The names are those of Ray Serve where Ray Serve has the same option.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    backlog_seconds: float = 10.0
    """The mean predicted seconds of work on a replica above which replicas are added."""
    upscale_delay_s: float = 5.0
    """Replicas are added after this many seconds above `backlog_seconds`."""
    downscale_delay_s: float = 300.0
    """A replica is removed after this many seconds without need for it."""

    def __post_init__(self) -> None:
        if self.min_replicas < 1:
            raise ValueError(f"min_replicas: expected at least 1, got {self.min_replicas}")
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas: expected at least min_replicas = {self.min_replicas}, got {self.max_replicas}"
            )
        if not 0 < self.backlog_seconds < math.inf:
            raise ValueError(f"backlog_seconds: expected a number above 0, got {self.backlog_seconds:g}")
        for name in ("upscale_delay_s", "downscale_delay_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: expected a number from 0 on, got {getattr(self, name):g}")


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """The unfinished work of one replica."""

    seconds: float
    """The predicted seconds of the work."""
    prompts: int
    up: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """Observations until the time `at`: since when work has piled up, and how much work there was since `since`."""

    at: float
    since: float
    pressed_since: float | None = None
    busy_seconds: float = 0.0
    """The seconds in which replicas had prompts, summed over all replicas."""
    peak_seconds: float = 0.0
    """The most predicted seconds of work at any observation."""
    used: frozenset[int] = frozenset()
    """The replicas that had a prompt at any observation."""


@dataclass(frozen=True, slots=True)
class Change:
    """The number of replicas to add, or the replica to remove."""

    add: int = 0
    remove: int | None = None


def decide(scaling: Scaling, loads: Mapping[int, ReplicaLoad], now: float, seen: Seen | None) -> tuple[Change, Seen]:
    """Return the change, and the value of `seen` for the next call. `loads` has every replica that is not leaving.

    The number of replicas is stable under a constant load, and under load peaks at most `downscale_delay_s` apart.
    After the last peak, a replica is removed within twice that time.
    """
    total = sum(load.seconds for load in loads.values())
    seen = _look(loads, total, now, seen or Seen(now, now))
    count = len(loads)
    if count < scaling.min_replicas:
        return Change(add=scaling.min_replicas - count), Seen(now, now)
    if count > scaling.max_replicas:
        return Change(remove=_least_needed(loads, seen)), Seen(now, now)
    if total > scaling.backlog_seconds * count:
        since = now if seen.pressed_since is None else seen.pressed_since
        # While a replica starts, or waits for room on the cluster, another replica would not help.
        ready = count < scaling.max_replicas and all(load.up for load in loads.values())
        if ready and now - since >= scaling.upscale_delay_s:
            wanted = min(scaling.max_replicas, 2 * count, math.ceil(total / scaling.backlog_seconds))
            return Change(add=max(1, wanted - count)), Seen(now, now)
        return Change(), Seen(now, now, since)
    seen = replace(seen, pressed_since=None)
    if now - seen.since < scaling.downscale_delay_s:
        return Change(), seen
    if count > scaling.min_replicas and _is_slack(scaling, loads, seen):
        return Change(remove=_least_needed(loads, seen)), Seen(now, now)
    return Change(), Seen(now, now)


def _look(loads: Mapping[int, ReplicaLoad], total: float, now: float, seen: Seen) -> Seen:
    busy = {number for number, load in loads.items() if load.prompts}
    seconds = seen.busy_seconds + len(busy) * (now - seen.at)
    peak = max(seen.peak_seconds, total)
    return replace(seen, at=now, busy_seconds=seconds, peak_seconds=peak, used=seen.used | busy)


def _is_slack(scaling: Scaling, loads: Mapping[int, ReplicaLoad], seen: Seen) -> bool:
    """Tell whether one replica less suffices: one had no prompt, or all were busy half of the others' time at most."""
    rest = len(loads) - 1
    # The peak counts, not this moment: between two bursts, replicas that the next burst needs have no work either.
    if seen.peak_seconds > _EASE * scaling.backlog_seconds * rest:
        return False
    elapsed = seen.at - seen.since
    return not seen.used.issuperset(loads) or seen.busy_seconds <= _EASE * rest * elapsed


def _least_needed(loads: Mapping[int, ReplicaLoad], seen: Seen) -> int:
    """Return the replica to remove: one that is down, else one without prompts so far, else the least loaded.

    Of equal replicas, the last one is removed.
    """
    return min(loads, key=lambda n: (loads[n].up, n in seen.used, loads[n].seconds, loads[n].prompts, -n))
