"""Give rows their fields one after the other, so that groups of rows which agree in a heavy value share a prefix."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.sequence import Flat

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Taste:
    """How a group is judged: by tokens of its value to the `power`, times the rows that then share it.

    With `determined`, the values of other fields that all rows of the group agree in count as well. A power above 1
    prefers few rows that share much to many that share little, which would split the former.
    """

    power: float
    determined: bool


class Paths:
    """The fields given to each row so far, and the group it ended in; changed in place by `grow`."""

    def __init__(self, shape: tuple[int, int]) -> None:
        rows, columns = shape
        self.fields = np.zeros((rows, columns), dtype=np.int16)
        self.used = np.zeros((rows, columns), dtype=bool)
        self.depth = np.zeros(rows, dtype=np.int64)
        self.group = np.zeros(rows, dtype=np.int64)

    def append(self, rows: Rows, columns: NDArray[np.int64]) -> None:
        """Give each of `rows` its next field."""
        self.fields[rows, self.depth[rows]] = columns
        self.used[rows, columns] = True
        self.depth[rows] += 1

    def append_rest(self, ranks: NDArray[np.int64]) -> None:
        """Give every row the fields it lacks by ascending rank, at most k; `ranks` is n × k or k."""
        columns = self.used.shape[1]
        rest = np.argsort(np.where(self.used, columns + 1, ranks), axis=1, kind="stable")
        for place in range(columns - int(self.depth.min(initial=columns))):
            rows = np.flatnonzero(self.depth + place < columns)
            self.fields[rows, self.depth[rows] + place] = rest[rows, place]
        self.depth[:] = columns
        self.used[:] = True


@dataclass(slots=True)
class _Pairs:
    """All (group, column, value) with at least two rows; number `len(weight) - 1` stands for none of them."""

    number: NDArray[np.int32]
    """Rows of the level × columns."""
    weight: NDArray[np.float64]
    count: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Level:
    """The rows that are in a group of at least two, and their groups, numbered from 0."""

    rows: Rows
    group: NDArray[np.int64]


def grow(encoded: Encoded, flat: Flat, taste: Taste) -> Paths:
    """Build the groups level by level, all groups of a level at once; rows that share nothing more stay where they are.

    Inside a group: fields in which all rows agree come first; then the best (column, value) takes its rows into a new
    group, the next best takes its own of the remaining rows, and so on, as GGR does.
    """
    paths = Paths(encoded.codes.shape)
    weights = flat.weights[np.where(encoded.codes < 0, 0, encoded.codes + flat.offsets[:-1])]
    level = _Level(np.arange(len(weights)), np.zeros(len(weights), dtype=np.int64))
    named = 0
    while len(level.rows):
        groups = int(level.group.max()) + 1
        paths.group[level.rows] = level.group + named
        named += groups
        pairs = _pair_up(encoded, weights, level, paths, taste)
        taken = _take(pairs, level.rows, paths)
        inside = np.flatnonzero(taken >= 0)
        if not len(inside):
            break
        numbers = np.zeros(len(pairs.weight), dtype=np.int64)
        numbers[taken[inside]] = 1
        level = _Level(level.rows[inside], (np.cumsum(numbers) - 1)[taken[inside]])
    return paths


def _pair_up(encoded: Encoded, weights: NDArray[np.float64], level: _Level, paths: Paths, taste: Taste) -> _Pairs:
    """Number the pairs of the level, after giving groups the fields that all of their rows agree in."""
    rows, columns = level.rows, weights.shape[1]
    size = np.bincount(level.group)
    number = np.full((len(rows), columns), -1, dtype=np.int32)
    agreed = np.full((len(rows), columns), -1.0)
    members: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
    value_weights, counts, total = [], [], 0
    for column in range(columns):
        codes = encoded.codes[rows, column]
        open_rows = np.flatnonzero((codes >= 0) & ~paths.used[rows, column])
        keys = level.group[open_rows] * len(encoded.weights[column]) + codes[open_rows]
        sort = np.argsort(keys, kind="stable")
        sorted_rows, keys = open_rows[sort], keys[sort]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        count = np.diff(starts, append=len(keys))
        whole = np.repeat(count == size[level.group[sorted_rows[starts]]], count)
        agreed[sorted_rows[whole], column] = weights[rows[sorted_rows[whole]], column]
        several = (count > 1) & ~whole[starts]
        if not several.any():
            continue
        sorted_rows = sorted_rows[np.repeat(several, count)]
        count = count[several]
        number[sorted_rows, column] = np.repeat(np.arange(total, total + len(count), dtype=np.int32), count)
        starts = np.cumsum(count) - count
        members.append((column, sorted_rows, starts))
        value_weights.append(weights[rows[sorted_rows[starts]], column])
        counts.append(count)
        total += len(count)
    _append_agreed(agreed, rows, paths)
    weight = np.concatenate([*value_weights, np.zeros(1)])
    if taste.determined:
        _add_determined(weight, number, members, weights[rows])
    return _Pairs(number, weight**taste.power, np.concatenate([*counts, np.zeros(1, dtype=np.int64)]))


def _append_agreed(agreed: NDArray[np.float64], rows: Rows, paths: Paths) -> None:
    """Give rows the fields whose entry in `agreed` is not negative, heaviest first."""
    order = np.argsort(-agreed, axis=1, kind="stable")
    fields = np.count_nonzero(agreed >= 0, axis=1)
    for place in range(int(fields.max(initial=0))):
        here = np.flatnonzero(fields > place)
        paths.append(rows[here], order[here, place])


def _add_determined(
    weight: NDArray[np.float64],
    number: NDArray[np.int32],
    members: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]],
    weights: NDArray[np.float64],
) -> None:
    """Add to each pair's weight the weights of other fields in which all of its rows agree, in place."""
    for column, rows, starts in members:
        pairs = number[rows[starts], column]
        for other, _, _ in members:
            if other != column:
                values = number[rows, other]
                least, most = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
                same = (least == most) & (least >= 0)
                weight[pairs[same]] += weights[rows[starts[same]], other]


def _take(pairs: _Pairs, rows: Rows, paths: Paths) -> NDArray[np.int64]:
    """Let the best pairs take their rows, give those rows their field; return each row's pair, -1 for none.

    A pair better than every other pair of each of its rows would be taken, as it is, before any of those: so all such
    pairs are taken at once, which leads to the same groups as taking the best pair one by one.
    """
    taken = np.full(len(rows), -1, dtype=np.int64)
    left = np.flatnonzero((pairs.number >= 0).any(axis=1))
    while len(left):
        gain = pairs.weight * (pairs.count - 1)
        gain[-1] = 0.0
        numbers = pairs.number[left]
        best = np.argmax(gain[numbers], axis=1)
        chosen = numbers[np.arange(len(left)), best]
        worth = gain[chosen] > 0
        left, best, chosen = left[worth], best[worth], chosen[worth]
        agreed = np.bincount(chosen, minlength=len(gain))[chosen] == pairs.count[chosen]
        taken[left[agreed]] = chosen[agreed]
        paths.append(rows[left[agreed]], best[agreed])
        gone = pairs.number[left[agreed]].ravel()
        pairs.count -= np.bincount(gone + 1, minlength=len(gain) + 1)[1:]
        left = left[~agreed]
    return taken
