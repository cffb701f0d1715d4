"""Decide the number of replicas: more when work is waiting, fewer when the replicas had little work for some time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_EASE: Final = 0.5
"""A replica is removed only if the load of the other replicas stays low.

Low means: at most this fraction of the load at which a replica would be added."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The bounds on the number of replicas, and the conditions for changes.

    The names are those of Ray Serve where Ray Serve has the same option.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    backlog_seconds: float = 10.0
    """Replicas are added if the predicted work exceeds this many seconds per replica, on average."""
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
    """The observations of `decide` between the times `since` and `at`."""

    at: float
    since: float
    pressed_since: float | None = None
    """The time from which the work has exceeded `backlog_seconds` per replica; None if it does not."""
    busy_seconds: float = 0.0
    """The seconds in which replicas had prompts, summed over all replicas."""
    peak_seconds: float = 0.0
    """The maximum, over all observations, of the predicted seconds of work."""
    used: frozenset[int] = frozenset()
    """The replicas that had a prompt at any observation."""


@dataclass(frozen=True, slots=True)
class Change:
    """The number of replicas to add, or the replica to remove."""

    add: int = 0
    remove: int | None = None


def decide(scaling: Scaling, loads: Mapping[int, ReplicaLoad], now: float, seen: Seen | None) -> tuple[Change, Seen]:
    """Return the change, and the value of `seen` for the next call. `loads` has every replica that is not leaving.

    The number of replicas does not change under a constant load. It also does not change under repeated load peaks, if
    the time between two peaks is at most `downscale_delay_s`. After the last peak, a replica is removed within twice
    `downscale_delay_s`.
    """
    total = sum(load.seconds for load in loads.values())
    seen = _observe(loads, total, now, seen or Seen(now, now))
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


def _observe(loads: Mapping[int, ReplicaLoad], total: float, now: float, seen: Seen) -> Seen:
    busy = {number for number, load in loads.items() if load.prompts}
    seconds = seen.busy_seconds + len(busy) * (now - seen.at)
    peak = max(seen.peak_seconds, total)
    return replace(seen, at=now, busy_seconds=seconds, peak_seconds=peak, used=seen.used | busy)


def _is_slack(scaling: Scaling, loads: Mapping[int, ReplicaLoad], seen: Seen) -> bool:
    """Return whether one replica fewer suffices.

    It suffices if some replica had no prompt. It also suffices if the busy seconds of all replicas are at most half of
    the time that the other replicas have. The peak load must be low too (see `_EASE`).
    """
    rest = len(loads) - 1
    # Use the peak, not the present load: between two bursts all replicas are idle, but the next burst needs them.
    if seen.peak_seconds > _EASE * scaling.backlog_seconds * rest:
        return False
    elapsed = seen.at - seen.since
    return not seen.used.issuperset(loads) or seen.busy_seconds <= _EASE * rest * elapsed


def _least_needed(loads: Mapping[int, ReplicaLoad], seen: Seen) -> int:
    """Return the replica to remove: one that is down, else one without prompts so far, else the least loaded.

    Of equal replicas, the one with the highest number is removed.
    """
    return min(loads, key=lambda n: (loads[n].up, n in seen.used, loads[n].seconds, loads[n].prompts, -n))
