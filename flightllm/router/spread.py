"""Cut a line of prompts into runs, one for each replica, that keep all of them busy equally long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.router.line import Line
from flightllm.router.stretch import find_stretch

_REACH: Final = 0.5
"""How much of a run may be given up to end it where less is computed twice."""
_EXACT: Final = 1e-3
"""How exactly the least level is found at which all prompts are placed, as a share of it."""
_MOVES: Final = 4
"""Stretches moved to even runs out, for each replica."""


def spread(line: Line, up: Sequence[int], load: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a replica for each prompt of a line; `load` has the seconds that each replica has to do already."""
    chosen = np.full(len(line), -1, dtype=np.int64)
    busy = {replica: float(load[replica]) for replica in up}
    _continue(line, busy, chosen)
    rest = np.flatnonzero(chosen < 0)
    if len(rest):
        _divide(line, rest, busy, chosen)
    _even_out(line, busy, chosen)
    return chosen


def _continue(line: Line, busy: dict[int, float], chosen: NDArray[np.int64]) -> None:
    """Give groups that one replica has more of than others to that one, as far as it has time."""
    seconds, repeated = line.seconds(line.shared), line.again(line.shared)
    level = _level(list(busy.values()), float(seconds.sum()))
    for start, end, replica in _homes(line, busy):
        known = line.token_seconds * max(0, int(line.held[start] - line.shared[start]))
        spent = np.concatenate(([0.0], np.cumsum(seconds[start:end]) - known))
        again = np.append(repeated[start:end], 0.0)
        cut = _cut(spent, again, 0, level - busy[replica])
        chosen[start : start + cut] = replica
        busy[replica] += float(spent[cut])


def _homes(line: Line, busy: dict[int, float]) -> list[tuple[int, int, int]]:
    """Return the stretches of which one replica has more than others, each from start to end, and that replica."""
    found: list[tuple[int, int, int]] = []
    for place in np.flatnonzero(line.held > line.common).tolist():
        if found and found[-1][1] == place and found[-1][2] in line.holders[place]:
            found[-1] = found[-1][0], place + 1, found[-1][2]
        elif line.held[place] > line.shared[place]:
            home = min(line.holders[place], key=lambda replica: (busy[replica], replica))
            found.append((place, place + 1, home))
    return found


def _divide(line: Line, rest: NDArray[np.int64], busy: dict[int, float], chosen: NDArray[np.int64]) -> None:
    """Cut what is left of the line into runs, at the least level of load at which all of it has a place."""
    shared = line.between(rest)
    spent = np.concatenate(([0.0], np.cumsum(line.seconds(shared, rest))))
    again = np.append(line.again(shared, rest), 0.0)
    order = sorted(busy, key=lambda replica: (busy[replica], replica))
    holders = [line.holders[place] if line.held[place] > line.common[place] else frozenset() for place in rest]
    low = _level([busy[replica] for replica in order], float(spent[-1]))
    step = _EXACT * low
    runs = _filled(spent, again, holders, busy, order, low)
    high = low
    while runs is None:
        low, high, step = high, high + step, 2 * step
        runs = _filled(spent, again, holders, busy, order, high)
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        found = _filled(spent, again, holders, busy, order, middle)
        low, high, runs = (middle, high, runs) if found is None else (low, middle, found)
    for start, end, replica in runs:
        chosen[rest[start:end]] = replica
        busy[replica] += float(spent[end] - spent[start] + again[start])


def _filled(
    spent: NDArray[np.float64],
    again: NDArray[np.float64],
    holders: Sequence[frozenset[int]],
    busy: dict[int, float],
    order: Sequence[int],
    level: float,
) -> list[tuple[int, int, int]] | None:
    """Return runs, from start to end, and who has them, that nobody is busy beyond a level for; None if some are left.

    Each goes to a replica that holds its beginning, else to the least busy one that has none.
    """
    free = dict.fromkeys(order)
    runs: list[tuple[int, int, int]] = []
    start, last = 0, len(spent) - 1
    while start < last:
        holding = [one for one in holders[start] if one in free]
        replica = min(holding, key=lambda one: busy[one]) if holding else next(iter(free), None)
        if replica is None:
            return None
        del free[replica]
        end = _cut(spent, again, start, level - busy[replica])
        if end > start:
            runs.append((start, end, replica))
            start = end
    return runs


def _cut(spent: NDArray[np.float64], again: NDArray[np.float64], start: int, room: float) -> int:
    """Return where a run ends that begins at `start` and has room for some seconds: `start` if nothing fits.

    `spent` are the seconds up to each place, `again` those spent twice where a run begins there.
    """
    begun = spent[start] - again[start]
    most = int(np.searchsorted(spent, begun + room, "right")) - 1
    if most >= len(spent) - 1 or most <= start:
        return max(start, most)
    least = min(most, max(start + 1, int(np.searchsorted(spent, begun + (1 - _REACH) * room))))
    worth = (spent - again)[least : most + 1]
    return most - int(np.argmax(worth[::-1]))


def _even_out(line: Line, busy: dict[int, float], chosen: NDArray[np.int64]) -> None:
    """Move stretches from the busiest replica to the least busy one, as long as that helps."""
    for _ in range(_MOVES * len(busy)):
        heavy, light = max(busy, key=lambda one: busy[one]), min(busy, key=lambda one: busy[one])
        if busy[heavy] - busy[light] <= _EXACT * busy[heavy]:
            return
        places = np.flatnonzero(chosen == heavy)
        if not len(places):
            return
        shared = line.between(places)
        moved = find_stretch(line.seconds(shared, places), line.again(shared, places), busy[heavy], busy[light])
        if moved is None:
            return
        chosen[places[moved.start : moved.end]] = light
        busy[heavy] -= moved.less
        busy[light] += moved.more


def _level(loads: Sequence[float], work: float) -> float:
    """Return the seconds up to which all are busy when some work is added where there is least."""
    ordered = np.sort(np.array(loads))
    levels = (work + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1)
    above = np.append(ordered[1:], np.inf)
    return float(levels[np.argmax(levels <= above)])
