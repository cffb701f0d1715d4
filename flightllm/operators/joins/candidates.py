"""The distinct pairs of values that can match: all of them, or those that the join's other conditions let through.

A pair is one number: left · n + right, with n values in all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.operators.joins.values import Ints, Values

_MERGED = 1 << 20
"""So many pairs are gathered before equal ones are merged."""


class Candidates(Protocol):
    """Distinct pairs of values."""

    @property
    def left(self) -> Ints:
        """Return the values of the left side."""

    @property
    def right(self) -> Ints:
        """Return the values of the right side."""

    @property
    def distinct(self) -> int:
        """Return the number of distinct pairs."""

    @property
    def rows(self) -> int:
        """Return the number of pairs of rows."""

    def blocks(self, size: int) -> Iterator[Ints]:
        """Yield all distinct pairs, about `size` at a time."""

    def has(self, pairs: Ints) -> NDArray[np.bool_]:
        """Return for each pair whether it is a candidate."""


@dataclass(frozen=True, slots=True)
class AllPairs:
    """Each value of the left side with each value of the right side."""

    left: Ints
    right: Ints
    values: Values

    @property
    def distinct(self) -> int:
        """Return the number of distinct pairs."""
        return len(self.left) * len(self.right)

    @property
    def rows(self) -> int:
        """Return the number of pairs of rows."""
        return int(self.values.counts(0).sum()) * int(self.values.counts(1).sum())

    def blocks(self, size: int) -> Iterator[Ints]:
        """Yield all distinct pairs, about `size` at a time, without a list of all of them."""
        count, step = len(self.values.found), max(1, size // max(1, len(self.right)))
        for start in range(0, len(self.left), step):
            lefts = self.left[start : start + step] * count
            for first in range(0, len(self.right), size):
                yield (lefts[:, None] + self.right[None, first : first + size]).ravel()

    def has(self, pairs: Ints) -> NDArray[np.bool_]:
        """Return for each pair whether it is a candidate."""
        count = len(self.values.found)
        return np.isin(pairs // count, self.left) & np.isin(pairs % count, self.right)


@dataclass(frozen=True, slots=True)
class SomePairs:
    """The distinct pairs `pairs`, in ascending order, each with its pairs of rows."""

    left: Ints
    right: Ints
    pairs: Ints
    weights: Ints

    @property
    def distinct(self) -> int:
        """Return the number of distinct pairs."""
        return len(self.pairs)

    @property
    def rows(self) -> int:
        """Return the number of pairs of rows."""
        return int(self.weights.sum())

    def blocks(self, size: int) -> Iterator[Ints]:
        """Yield all distinct pairs, `size` at a time."""
        for start in range(0, len(self.pairs), size):
            yield self.pairs[start : start + size]

    def has(self, pairs: Ints) -> NDArray[np.bool_]:
        """Return for each pair whether it is a candidate."""
        return np.isin(pairs, self.pairs)


def merged(batches: Iterable[pa.RecordBatch], values: Values) -> SomePairs:
    """Return the distinct pairs of two columns of the numbers that rows were read with; they can have many rows."""
    known, weights = np.empty(0, np.int64), np.empty(0, np.int64)
    waiting: list[Ints] = []
    held, count = 0, len(values.found)
    for batch in batches:
        left, right = (values.settled[np.asarray(batch.column(c))] for c in (0, 1))
        waiting.append(left * count + right)
        held += len(left)
        if held >= max(_MERGED, len(known)):
            known, weights = _added(known, weights, waiting)
            waiting, held = [], 0
    known, weights = _added(known, weights, waiting)
    return SomePairs(np.unique(known // max(count, 1)), np.unique(known % max(count, 1)), known, weights)


def _added(known: Ints, weights: Ints, waiting: list[Ints]) -> tuple[Ints, Ints]:
    if not waiting:
        return known, weights
    new, counts = np.unique(np.concatenate(waiting), return_counts=True)
    every, place = np.unique(np.concatenate([known, new]), return_inverse=True)
    total = np.bincount(place, weights=np.concatenate([weights, counts]), minlength=len(every))
    return every, total.astype(np.int64)


def folded(block: Ints, candidates: Candidates, values: int) -> Ints:
    """Return the pairs of a block that are asked where the answer about (a, b) is also that about (b, a).

    So the blocks of all candidates have each question about two values once.
    """
    kept: Ints = block[turned(block, candidates, values) == block]
    return kept


def turned(pairs: Ints, candidates: Candidates, values: int) -> Ints:
    """Return for each pair the one of both orders that is asked: a candidate, and the smaller number first if both are.

    Where neither order is a candidate, the smaller number comes first too.
    """
    first, second = pairs // values, pairs % values
    ascending = np.minimum(first, second) * values + np.maximum(first, second)
    descending = np.maximum(first, second) * values + np.minimum(first, second)
    asked: Ints = np.where(candidates.has(descending) & ~candidates.has(ascending), descending, ascending)
    return asked
