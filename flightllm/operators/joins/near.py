"""The pairs of values with the nearest vectors, found block by block, and the pairs of rows that are left.

Memory is bounded by the nearest pairs that are kept, and not by all pairs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.common.cached import cached_property
from flightllm.errors import check_cancelled
from flightllm.operators.joins.candidates import AllPairs, Candidates, SomePairs
from flightllm.operators.joins.values import Ints

_NUMBERS: Final = 1 << 22
"""The most similarities that are in memory at once."""
_ACROSS: Final = 2_048
"""The values of the right side that are compared at once: a product of two blocks is faster than one with a strip."""
_FEWEST_KEPT: Final = 1 << 16

Vectors = NDArray[np.float32] | NDArray[np.float16]
Cosines = NDArray[np.float32]


def nearest(candidates: Candidates, vectors: Vectors, most: int, cancelled: Callable[[], bool]) -> Ints:
    """Return the `most` candidates with the largest cosines, in falling order; equal ones by the pair.

    `vectors` has a row of length 1 for each value, by number.

    Raises:
        CancelledError: the query was cancelled.
    """
    kept = _Nearest(most)
    for pairs, cosines in _similarities(candidates, vectors):
        check_cancelled(cancelled)
        kept.add(pairs, cosines)
    return kept.sorted()


def _similarities(candidates: Candidates, vectors: Vectors) -> Iterator[tuple[Callable[[Ints], Ints], Cosines]]:
    """Yield the cosines of blocks of pairs, each with a function that returns the pairs at places of the block."""
    count = len(vectors)
    if isinstance(candidates, SomePairs):
        for block in candidates.blocks(max(1, _NUMBERS // (4 * vectors.shape[1]))):
            one, other = (vectors[values].astype(np.float32) for values in (block // count, block % count))
            yield block.__getitem__, np.einsum("ij,ij->i", one, other)
        return
    for first in range(0, len(candidates.right), _ACROSS):
        rights = candidates.right[first : first + _ACROSS]
        across = vectors[rights].astype(np.float32).T
        step = max(1, _NUMBERS // len(rights))
        for start in range(0, len(candidates.left), step):
            lefts = candidates.left[start : start + step]

            def pairs(places: Ints, lefts: Ints = lefts, rights: Ints = rights) -> Ints:
                return lefts[places // len(rights)] * count + rights[places % len(rights)]

            yield pairs, (vectors[lefts].astype(np.float32) @ across).ravel()


class _Nearest:
    """Keeps the pairs with the largest cosines."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pairs = np.empty(0, np.int64)
        self._cosines = np.empty(0, np.float32)
        self._waiting: list[tuple[Ints, Cosines]] = []
        self._held = 0
        self._least = -np.inf

    def add(self, pairs: Callable[[Ints], Ints], cosines: Cosines) -> None:
        """Take a block of pairs."""
        places = np.flatnonzero(cosines > self._least)
        if not len(places):
            return
        self._waiting.append((pairs(places), cosines[places]))
        self._held += len(places)
        if self._held > max(self._most, _FEWEST_KEPT):
            self._prune()

    def sorted(self) -> Ints:
        """Return the kept pairs, the nearest first."""
        self._prune()
        return self._pairs[np.lexsort((self._pairs, -self._cosines))]

    def _prune(self) -> None:
        found = [(self._pairs, self._cosines), *self._waiting]
        pairs, cosines = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if len(pairs) > self._most:
            best = np.argpartition(-cosines, self._most - 1)[: self._most]
            pairs, cosines = pairs[best], cosines[best]
            self._least = float(cosines.min())
        self._pairs, self._cosines, self._waiting, self._held = pairs, cosines, [], 0


@dataclass(frozen=True)
class Rest:
    """All candidates but some; the numbers of their pairs of rows are by the left value, then by the right value."""

    candidates: Candidates
    without: Ints
    """Distinct candidates in ascending order."""

    @property
    def rows(self) -> int:
        """Return the number of pairs of rows."""
        return self.candidates.rows - int(self._gaps[1][-1])

    def pairs_of(self, ranks: Ints) -> Ints:
        """Return the pairs of values of pairs of rows, which are numbered from 0."""
        before, widths = self._gaps
        return pairs_at(self.candidates, ranks + widths[np.searchsorted(before, ranks, "right")])

    @cached_property
    def _gaps(self) -> tuple[Ints, Ints]:
        """Return how many pairs of rows are before each gap, and how wide the gaps before each of them are together."""
        starts, weights = _starts(self.candidates, self.without)
        widths = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
        return starts - widths[:-1], widths


def weights_of(candidates: Candidates, pairs: Ints) -> Ints:
    """Return the number of pairs of rows of each pair of values."""
    return _starts(candidates, pairs)[1]


def _starts(candidates: Candidates, pairs: Ints) -> tuple[Ints, Ints]:
    """Return the number of the first pair of rows of each candidate, and how many it has."""
    if isinstance(candidates, SomePairs):
        places = np.searchsorted(candidates.pairs, pairs)
        weights = candidates.weights[places]
        return np.cumsum(candidates.weights)[places] - weights, weights
    if isinstance(candidates, AllPairs):
        left, right = (candidates.values.counts(side) for side in (0, 1))
        one, other = pairs // len(left), pairs % len(left)
        rows = int(right.sum())
        starts = (np.cumsum(left) - left)[one] * rows + left[one] * (np.cumsum(right) - right)[other]
        return starts, left[one] * right[other]
    raise TypeError(candidates)


def pairs_at(candidates: Candidates, ranks: Ints) -> Ints:
    """Return the pairs of values of pairs of rows, by their number among those of all candidates."""
    if isinstance(candidates, SomePairs):
        return candidates.pairs[np.searchsorted(np.cumsum(candidates.weights), ranks, "right")]
    if isinstance(candidates, AllPairs):
        left, right = (candidates.values.counts(side) for side in (0, 1))
        rows, ends = int(right.sum()), np.cumsum(left)
        one = np.searchsorted(ends * rows, ranks, "right")
        within = (ranks - (ends - left)[one] * rows) // left[one]
        return one * len(left) + np.searchsorted(np.cumsum(right), within, "right")
    raise TypeError(candidates)
