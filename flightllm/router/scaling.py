"""How many replicas are wanted: more where work piles up, fewer where some have long had little to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

_EASE: Final = 0.5
"""A replica goes only if those that stay have at most this part of what would bring it back."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Between how many replicas, and when. The names are those of Ray Serve where it has the same."""

    min_replicas: int = 1
    max_replicas: int = 1
    backlog_seconds: float = 10.0
    """More predicted seconds of work than this on each replica are too many."""
    upscale_delay_s: float = 5.0
    """Replicas are added after so many seconds of that."""
    downscale_delay_s: float = 300.0
    """One goes that was not needed for so long."""

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
class Load:
    """What one replica has to do."""

    seconds: float
    """As predicted."""
    prompts: int
    up: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen until some time: how long work has piled up, and how much was to do since `since`."""

    at: float
    since: float
    pressed_since: float | None = None
    busy_seconds: float = 0.0
    """Of all replicas together."""
    peak_seconds: float = 0.0
    """The most predicted work at any look."""
    used: frozenset[int] = frozenset()
    """Replicas that had any prompt."""


@dataclass(frozen=True, slots=True)
class Change:
    """How many replicas to add, or which one to remove."""

    add: int = 0
    remove: int | None = None


def decide(scaling: Scaling, loads: Mapping[int, Load], now: float, seen: Seen | None) -> tuple[Change, Seen]:
    """Return what to change, and what to pass the next time as `seen`. `loads` has every replica that is to stay.

    The number settles where the load is constant, and where as much work piles up again within `downscale_delay_s`.
    After the last such peak a replica goes within twice that time.
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
        # While one starts, or finds no room on the cluster, more would not help.
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


def _look(loads: Mapping[int, Load], total: float, now: float, seen: Seen) -> Seen:
    busy = {number for number, load in loads.items() if load.prompts}
    seconds = seen.busy_seconds + len(busy) * (now - seen.at)
    peak = max(seen.peak_seconds, total)
    return replace(seen, at=now, busy_seconds=seconds, peak_seconds=peak, used=seen.used | busy)


def _is_slack(scaling: Scaling, loads: Mapping[int, Load], seen: Seen) -> bool:
    """Tell whether one replica less would do: one had nothing at all, or all together half of what the others can."""
    rest = len(loads) - 1
    # The peak counts, not this moment: between two bursts even replicas that the next one needs have nothing to do.
    if seen.peak_seconds > _EASE * scaling.backlog_seconds * rest:
        return False
    elapsed = seen.at - seen.since
    return not seen.used.issuperset(loads) or seen.busy_seconds <= _EASE * rest * elapsed


def _least_needed(loads: Mapping[int, Load], seen: Seen) -> int:
    """Return the latest replica that is down, else one that had nothing to do, else the one with the least."""
    return min(loads, key=lambda n: (loads[n].up, n in seen.used, loads[n].seconds, loads[n].prompts, -n))
