"""Order the fields of each row by the best tree in which all rows of a group have the same next field.

A group is a set of rows with equal values in a set of fields. The order of these fields does not matter to the group:
their tokens are the same. So the best tree is found exactly: first for the groups with the most fields, then for groups
with one field less, and so on. The tree counts whole blocks of the cache. A field whose tokens fill no further block
saves nothing by itself.
"""

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.groups import Paths
from flightllm.prompt_order.range_minimum import RangeMinimum
from flightllm.prompt_order.sequence import FlatDictionary, sort_rows, whole_blocks
from flightllm.prompt_order.uniform import score_columns

_MOST_CELLS = 16_000_000
"""The most rows × sets of fields. Beyond it, the best fields by score are tried, and the others come last."""
_MOST_SETS = 2_048
"""The most sets of fields: each of them takes 20 us for each field, however few rows there are."""
_LEAST_FIELDS = 2
_ALONE = -1
"""The group of a row that shares its values with no other row."""
_NO_FIELD = -1


def one_field_per_group(encoded: Encoded, cache: CacheShape) -> Draft | None:
    """Return the rows in the order of the best tree; None if the table is too large to try two fields."""
    rows, columns = encoded.codes.shape
    ranked = score_columns(encoded)
    fitting = min(_MOST_SETS, _MOST_CELLS // max(rows, 1)).bit_length() - 1
    if min(fitting, columns) < _LEAST_FIELDS:
        return None
    sets = _FieldSets(encoded, cache, np.sort(ranked[:fitting]))
    paths = Paths((rows, columns))
    sets.follow(paths)
    ranks = np.empty(columns, dtype=np.int64)
    ranks[ranked] = np.arange(1, columns + 1)
    paths.append_rest(ranks)
    places = sort_rows(sets.flat.sequence(encoded.codes, paths.fields))
    return Draft(places, paths.fields[places], "greedy")


class _FieldSets:
    """The groups of each set of fields, and the best next field of each group.

    A set is a number; bit `i` stands for the field `columns[i]`. Example: two fields and three rows.

    | row | film | genre | group in {} | in {film} | in {genre} | in {film, genre} |
    |-----|------|-------|-------------|-----------|------------|------------------|
    | 0   | 0    | 0     | 0           | 0         | 0          | 0                |
    | 1   | 0    | 0     | 0           | 0         | 0          | 0                |
    | 2   | 1    | 0     | 0           | -1        | 0          | -1               |
    """

    def __init__(self, encoded: Encoded, cache: CacheShape, columns: NDArray[np.int16]) -> None:
        self.flat = FlatDictionary.of(encoded)
        self._cache = cache
        self._columns = columns
        self._numbers = np.where(encoded.codes < 0, 0, encoded.codes + self.flat.offsets[:-1])[:, columns]
        self._weights = self.flat.weights[self._numbers]
        self._overlaps = None if self.flat.overlaps is None else RangeMinimum(self.flat.overlaps)
        self._groups: list[NDArray[np.int32]] = []
        self._tokens: list[NDArray[np.float64]] = []
        """By set: the tokens of each group's shared fields, and of the instruction."""
        self._find_groups()
        self._best: list[NDArray[np.int8]] = [np.zeros(0, dtype=np.int8)] * len(self._groups)
        self._choose()

    def follow(self, paths: Paths) -> None:
        """Give each row its fields in the order of the best tree, as far as other rows share them."""
        sets = np.zeros(len(self._numbers), dtype=np.int64)
        while True:
            field = np.full(len(sets), _NO_FIELD, dtype=np.int64)
            for number in np.unique(sets[sets >= 0]):
                here = np.flatnonzero(sets == number)
                group = self._groups[number][here]
                field[here] = np.append(self._best[number], _NO_FIELD)[group]
            go_on = np.flatnonzero(field != _NO_FIELD)
            if not len(go_on):
                return
            paths.append(go_on, self._columns[field[go_on]].astype(np.int64))
            sets = np.where(field == _NO_FIELD, -1, sets | (1 << np.maximum(field, 0)))

    def _find_groups(self) -> None:
        rows, columns = self._numbers.shape
        self._groups.append(np.full(rows, 0 if rows > 1 else _ALONE, dtype=np.int32))
        self._tokens.append(np.full(int(rows > 1), self._cache.shared_tokens))
        for number in range(1, 1 << columns):
            field = number.bit_length() - 1
            before = number ^ (1 << field)
            runs = _Runs(self._groups[before], self._numbers[:, field])
            group = np.full(rows, _ALONE, dtype=np.int32)
            group[runs.rows] = np.repeat(runs.group, runs.lengths)
            first = runs.first[runs.lengths > 1]
            self._groups.append(group)
            self._tokens.append(self._tokens[before][self._groups[before][first]] + self._weights[first, field])

    def _choose(self) -> None:
        """Choose the best next field of each group, beginning with the largest sets of fields."""
        saved: list[NDArray[np.float64]] = [np.zeros(0)] * len(self._groups)
        for number in range(len(self._groups) - 1, -1, -1):
            count = len(self._tokens[number])
            best, most = np.full(count, _NO_FIELD, dtype=np.int8), np.zeros(count)
            for field in range(len(self._columns)) if count else ():
                if number >> field & 1:
                    continue
                runs = _Runs(self._groups[number], self._numbers[:, field])
                below = self._groups[number | 1 << field][runs.first]
                gain = self._gain(number, field, runs) + np.append(saved[number | 1 << field], 0.0)[below]
                total = np.bincount(runs.parent, weights=gain, minlength=count)
                better = total > most
                most[better], best[better] = total[better], field
            saved[number], self._best[number] = most, best

    def _gain(self, number: int, field: int, runs: "_Runs") -> NDArray[np.float64]:
        """Return for each run the tokens that its value saves, and the part of it that the run before shares."""
        tokens = self._tokens[number][runs.parent]
        base = whole_blocks(tokens, self._cache)
        gain = (runs.lengths - 1) * (whole_blocks(tokens + self._weights[runs.first, field], self._cache) - base)
        if self._overlaps is not None:
            again = np.flatnonzero((runs.parent[1:] == runs.parent[:-1]) & (runs.values[:-1] > 0))
            part = self._overlaps.between(runs.values[again], runs.values[again + 1])
            gain[again + 1] += whole_blocks(tokens[again] + part, self._cache) - base[again]
        return gain


class _Runs:
    """The rows of all groups of a set, sorted so that rows of one group with one value form a run."""

    def __init__(self, groups: NDArray[np.int32], numbers: NDArray[np.int64]) -> None:
        rows = np.flatnonzero(groups != _ALONE)
        keys = groups[rows].astype(np.int64) * (int(numbers.max(initial=0)) + 1) + numbers[rows]
        order = np.argsort(keys)
        keys = keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        self.rows = rows[order]
        self.lengths = np.diff(starts, append=len(keys))
        self.first = self.rows[starts]
        """The first row of each run."""
        self.parent = groups[self.first]
        """The group that each run is a part of."""
        self.values = numbers[self.first]

    @property
    def group(self) -> NDArray[np.int32]:
        """Return the number of the group that each run forms, `_ALONE` for a run of one row."""
        shared = self.lengths > 1
        return np.where(shared, np.cumsum(shared) - 1, _ALONE).astype(np.int32)
