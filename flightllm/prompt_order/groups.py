"""Order the fields of each row so that groups of rows with an equal, long value share a prefix.

The prompts of a group begin with the same fields in the same order, so an engine computes this prefix only once. Groups
are built level by level: each level splits the groups of the level before by one more field.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.sequence import FlatDictionary

Rows = NDArray[np.int64]

_NO_CANDIDATE = -1
"""The index of the candidate for "this value forms no group".

This candidate is the last entry of the arrays, so that an index of -1 finds it without a special case.
"""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The score of a candidate group: the tokens of its value to the `power`, times the rows that reuse the prefix.

    With `determined`, the tokens of other fields that are equal in all rows of the group count too. A power above 1
    prefers few rows that share much to many rows that share little. Otherwise the many rows would form their group
    first, and would split the group of the few rows.
    """

    power: float
    determined: bool


class Paths:
    """The fields given to each row so far, and the last group of each row; changed in place by `build_groups`."""

    def __init__(self, shape: tuple[int, int]) -> None:
        rows, columns = shape
        self.fields = np.zeros((rows, columns), dtype=np.int16)
        """n × k columns in prompt order; only the first `depth` entries of a row are set."""
        self.used = np.zeros((rows, columns), dtype=bool)
        """n × k, by column: whether the row has been given the field."""
        self.depth = np.zeros(rows, dtype=np.int64)
        """How many fields each row has been given."""
        self.group = np.zeros(rows, dtype=np.int64)
        """The number of each row's last group, unique over all levels."""

    def append(self, rows: Rows, columns: NDArray[np.int64]) -> None:
        """Give each of `rows` the next field; `columns` has one column for each of `rows`."""
        self.fields[rows, self.depth[rows]] = columns
        self.used[rows, columns] = True
        self.depth[rows] += 1

    def append_rest(self, ranks: NDArray[np.int64]) -> None:
        """Give every row the fields that it lacks, at most k, by ascending rank; `ranks` has the shape n × k or k."""
        columns = self.used.shape[1]
        rest = np.argsort(np.where(self.used, columns + 1, ranks), axis=1, kind="stable")
        for place in range(columns - int(self.depth.min(initial=columns))):
            rows = np.flatnonzero(self.depth + place < columns)
            self.fields[rows, self.depth[rows] + place] = rest[rows, place]
        self.depth[:] = columns
        self.used[:] = True


@dataclass(frozen=True, slots=True)
class _Level:
    """The rows that belong to groups of at least two rows, and the group of each, numbered from 0."""

    rows: Rows
    group: NDArray[np.int64]


class _Runs(NamedTuple):
    """The rows of one column, sorted so that rows with the same group and value form a run.

    Rows are positions in the level. Run `i` has the `lengths[i]` rows from `rows[starts[i]]` on.
    """

    column: int
    rows: Rows
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def select(self, chosen: NDArray[np.bool_]) -> "_Runs":
        """Return only the chosen runs."""
        lengths = self.lengths[chosen]
        rows = self.rows[np.repeat(chosen, self.lengths)]
        return _Runs(self.column, rows, np.cumsum(lengths) - lengths, lengths)


@dataclass(slots=True)
class _Candidates:
    """The groups that a level can be split into: one for each (group, column, value) of at least two rows.

    The last candidate is `_NO_CANDIDATE`, with weight and size 0.
    """

    index: NDArray[np.int32]
    """Rows of the level × columns: the candidate that the row joins if it is grouped by this column."""
    weight: NDArray[np.float64]
    """By candidate: its score for each row that reuses the prefix."""
    size: NDArray[np.int64]
    """By candidate: rows that no other candidate has taken."""


def build_groups(encoded: Encoded, flat: FlatDictionary, score: GroupScore) -> Paths:
    """Build the groups level by level. Rows that share no further value get no further fields.

    Inside a group, the fields that are equal in all rows come first. Then the rows of the best (column, value) pair
    form a new group. The rows of the next best pair are taken from the remaining rows, and so on, as in GGR.

    Example: the values' codes of three rows, where a film has 50 tokens, a genre 5 and a review 20.

    | row | film | genre | review | group in level 1 | field of level 1 | next field | group in level 2 | fields       |
    |-----|------|-------|--------|------------------|------------------|------------|------------------|--------------|
    | 0   | 0    | 0     | 0      | 0                | genre            | film       | 1                | genre, film  |
    | 1   | 0    | 0     | 1      | 0                | genre            | film       | 1                | genre, film  |
    | 2   | 1    | 0     | 2      | 0                | genre            |            |                  | genre        |

    The genre is equal in all rows of group 0. Film 0 then takes rows 0 and 1 into group 1, whose rows share no more.
    """
    paths = Paths(encoded.codes.shape)
    weights = flat.weights[np.where(encoded.codes < 0, 0, encoded.codes + flat.offsets[:-1])]
    level = _Level(np.arange(len(weights)), np.zeros(len(weights), dtype=np.int64))
    groups_before = 0
    while len(level.rows):
        paths.group[level.rows] = level.group + groups_before
        groups_before += int(level.group.max()) + 1
        candidates = _find_candidates(encoded, weights, level, paths, score)
        taken = _take_best(candidates, level.rows, paths)
        grouped = np.flatnonzero(taken != _NO_CANDIDATE)
        if not len(grouped):
            break
        level = _Level(level.rows[grouped], _renumber(taken[grouped], len(candidates.weight)))
    return paths


def _renumber(chosen: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Number the chosen ones of `count` candidates from 0 without gaps: [5, 2, 5] becomes [1, 0, 1]."""
    is_chosen = np.zeros(count, dtype=np.int64)
    is_chosen[chosen] = 1
    numbers: NDArray[np.int64] = (np.cumsum(is_chosen) - 1)[chosen]
    return numbers


def _find_candidates(
    encoded: Encoded, weights: NDArray[np.float64], level: _Level, paths: Paths, score: GroupScore
) -> _Candidates:
    """Give groups the fields that are equal in all of their rows, and number the candidates of the level.

    Example: the rows of `build_groups`, all in one group. `index` shows for each field the candidate of its value.
    A genre is equal in all rows, so each row gets this field at once and the genre does not become a candidate. A
    review occurs only once, so it does not become a candidate either.
    With a power of 2, `weight` is [50², 0] and `size` is [2, 0].

    | row | film | genre | review |   | index: film | genre | review |
    |-----|------|-------|--------|---|-------------|-------|--------|
    | 0   | 0    | 0     | 0      | → | 0           | -1    | -1     |
    | 1   | 0    | 0     | 1      | → | 0           | -1    | -1     |
    | 2   | 1    | 0     | 2      | → | -1          | -1    | -1     |
    """
    rows, columns = level.rows, weights.shape[1]
    group_sizes = np.bincount(level.group)
    index = np.full((len(rows), columns), _NO_CANDIDATE, dtype=np.int32)
    agreed = np.full((len(rows), columns), -1.0)  # a field that is not equal in the whole group weighs -1
    repeated_runs: list[_Runs] = []
    first_weights, sizes, total = [], [], 0
    for column in range(columns):
        runs = _sort_into_runs(encoded, level, paths, column)
        is_whole_group = runs.lengths == group_sizes[level.group[runs.rows[runs.starts]]]
        whole = runs.rows[np.repeat(is_whole_group, runs.lengths)]
        agreed[whole, column] = weights[rows[whole], column]
        is_repeated = (runs.lengths > 1) & ~is_whole_group
        if not is_repeated.any():
            continue
        repeated = runs.select(is_repeated)
        count = len(repeated.lengths)
        index[repeated.rows, column] = np.repeat(np.arange(total, total + count, dtype=np.int32), repeated.lengths)
        repeated_runs.append(repeated)
        first_weights.append(weights[rows[repeated.rows[repeated.starts]], column])
        sizes.append(repeated.lengths)
        total += count
    _append_agreed(agreed, rows, paths)
    weight = np.concatenate([*first_weights, np.zeros(1)])
    if score.determined:
        _add_determined(weight, index, repeated_runs, weights[rows])
    return _Candidates(index, weight**score.power, np.concatenate([*sizes, np.zeros(1, dtype=np.int64)]))


def _sort_into_runs(encoded: Encoded, level: _Level, paths: Paths, column: int) -> _Runs:
    """Sort the rows that lack the field of a column by group and value; NULLs are left out.

    Example: three rows of one group with the films 1, 0 and 1, in a column of two values.

    | position in the level | group | film | key = group × 2 + film |   | rows, sorted by key | starts | lengths |
    |-----------------------|-------|------|------------------------|---|---------------------|--------|---------|
    | 0                     | 0     | 1    | 1                      | → | 1                   | 0      | 1       |
    | 1                     | 0     | 0    | 0                      | → | 0                   | 1      | 2       |
    | 2                     | 0     | 1    | 1                      | → | 2                   |        |         |
    """
    codes = encoded.codes[level.rows, column]
    without_field = np.flatnonzero((codes >= 0) & ~paths.used[level.rows, column])
    keys = level.group[without_field] * len(encoded.weights[column]) + codes[without_field]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return _Runs(column, without_field[order], starts, np.diff(starts, append=len(keys)))


def _append_agreed(agreed: NDArray[np.float64], rows: Rows, paths: Paths) -> None:
    """Give rows the fields whose entry in `agreed` is not negative, heaviest first."""
    order = np.argsort(-agreed, axis=1, kind="stable")
    counts = np.count_nonzero(agreed >= 0, axis=1)
    for place in range(int(counts.max(initial=0))):
        here = np.flatnonzero(counts > place)
        paths.append(rows[here], order[here, place])


def _add_determined(
    weight: NDArray[np.float64],
    index: NDArray[np.int32],
    repeated_runs: list[_Runs],
    weights: NDArray[np.float64],
) -> None:
    """Add to each candidate's weight, in place, the weights of other fields that are equal in all rows of its run.

    A field is equal in a run if the least and the greatest candidate index of its rows agree and are not -1.
    """
    for runs in repeated_runs:
        first_rows = runs.rows[runs.starts]
        candidates = index[first_rows, runs.column]
        for other in repeated_runs:
            if other.column != runs.column:
                values = index[runs.rows, other.column]
                least = np.minimum.reduceat(values, runs.starts)
                greatest = np.maximum.reduceat(values, runs.starts)
                is_equal = (least == greatest) & (least != _NO_CANDIDATE)
                weight[candidates[is_equal]] += weights[first_rows[is_equal], other.column]


def _take_best(candidates: _Candidates, rows: Rows, paths: Paths) -> NDArray[np.int64]:
    """Let the best candidates take their rows and give the rows the field; return the candidate that took each row.

    A row that is in no group gets `_NO_CANDIDATE`. The sizes of `candidates` shrink in place.

    One pass takes many candidates: if a candidate is the best one for each of its rows, no other candidate can take
    these rows before it. Taking candidates one by one would need a pass for each.
    """
    taken = np.full(len(rows), _NO_CANDIDATE, dtype=np.int64)
    left = np.flatnonzero((candidates.index != _NO_CANDIDATE).any(axis=1))
    while len(left):
        # The first row of a group computes the prefix; only the others save it.
        gain = candidates.weight * (candidates.size - 1)
        gain[_NO_CANDIDATE] = 0.0
        index = candidates.index[left]
        best_column = np.argmax(gain[index], axis=1)
        best = index[np.arange(len(left)), best_column]
        is_useful = gain[best] > 0
        left, best_column, best = left[is_useful], best_column[is_useful], best[is_useful]
        is_best_of_all_rows = np.bincount(best, minlength=len(gain))[best] == candidates.size[best]
        taken[left[is_best_of_all_rows]] = best[is_best_of_all_rows]
        paths.append(rows[left[is_best_of_all_rows]], best_column[is_best_of_all_rows])
        # Rows that are taken leave their other candidates. The shift by one counts `_NO_CANDIDATE` at 0, to be dropped.
        left_candidates = candidates.index[left[is_best_of_all_rows]].ravel()
        candidates.size -= np.bincount(left_candidates + 1, minlength=len(gain) + 1)[1:]
        left = left[~is_best_of_all_rows]
    return taken
