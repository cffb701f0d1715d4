"""Verdicts about pairs by classes of values, and random pairs of rows with one verdict, without a list of all pairs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.common.cached import cached_property
from flightllm.operators.joins.candidates import AllPairs, Candidates, SomePairs
from flightllm.operators.joins.near import Rest, weights_of
from flightllm.operators.joins.values import Ints

ACCEPT: Final = 1
REJECT: Final = 0
ASK: Final = -1
_FEW: Final = 1 << 18
"""Of so many rows or fewer, a permutation gives the random ones."""


@dataclass(frozen=True)
class Classes:
    """The class of each value, by number, and the verdict about each pair of classes of the left and right side."""

    left: Ints
    right: Ints
    verdict: NDArray[np.int8]

    def of(self, pairs: Ints) -> NDArray[np.int8]:
        """Return the verdict about each pair."""
        count = len(self.left)
        found: NDArray[np.int8] = self.verdict[self.left[pairs // count], self.right[pairs % count]]
        return found


@dataclass(frozen=True)
class Near:
    """Pairs to ask and pairs to accept, each in ascending order; all other candidates are rejected."""

    pairs: Ints
    accepted: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def of(self, pairs: Ints) -> NDArray[np.int8]:
        """Return the verdict about each pair."""
        asked = np.where(np.isin(pairs, self.pairs), ASK, REJECT)
        return np.where(np.isin(pairs, self.accepted), ACCEPT, asked).astype(np.int8)


class Verdicts(Protocol):
    """The candidates of a join with one verdict."""

    @property
    def rows(self) -> int:
        """Return the number of pairs of rows."""

    def pairs_of(self, ranks: Ints) -> Ints:
        """Return the pairs of values of pairs of rows, which are numbered from 0."""

    def rows_of(self, pairs: Ints) -> Ints:
        """Return the number of pairs of rows of each of some pairs of values, which have the verdict."""

    def blocks(self, size: int) -> Iterator[Ints]:
        """Yield all pairs of values with the verdict, about `size` at a time."""


def with_verdict(candidates: Candidates, classes: Classes | Near, verdict: int) -> Verdicts:
    """Return the candidates with a verdict."""
    if isinstance(classes, Near):
        if verdict == REJECT:
            return _Rejected(Rest(candidates, np.union1d(classes.pairs, classes.accepted)))
        pairs = classes.pairs if verdict == ASK else classes.accepted
        return _OfSome(pairs, np.cumsum(weights_of(candidates, pairs)))
    if isinstance(candidates, AllPairs):
        return _OfAll(candidates, classes, verdict)
    if isinstance(candidates, SomePairs):
        places = np.flatnonzero(classes.of(candidates.pairs) == verdict)
        return _OfSome(candidates.pairs[places], np.cumsum(candidates.weights[places]))
    raise TypeError(candidates)


@dataclass(frozen=True)
class _OfSome:
    pairs: Ints
    ends: Ints

    @property
    def rows(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def pairs_of(self, ranks: Ints) -> Ints:
        return self.pairs[np.searchsorted(self.ends, ranks, "right")]

    def rows_of(self, pairs: Ints) -> Ints:
        places = np.searchsorted(self.pairs, pairs)
        return self.ends[places] - np.where(places > 0, self.ends[places - 1], 0)

    def blocks(self, size: int) -> Iterator[Ints]:
        for start in range(0, len(self.pairs), size):
            yield self.pairs[start : start + size]


@dataclass(frozen=True)
class _Rejected:
    rest: Rest

    @property
    def rows(self) -> int:
        return self.rest.rows

    def pairs_of(self, ranks: Ints) -> Ints:
        return self.rest.pairs_of(ranks)

    def rows_of(self, pairs: Ints) -> Ints:
        return weights_of(self.rest.candidates, pairs)

    def blocks(self, size: int) -> Iterator[Ints]:
        for start in range(0, self.rows, size):
            yield np.unique(self.pairs_of(np.arange(start, min(start + size, self.rows))))


@dataclass(frozen=True)
class _OfAll:
    """All pairs whose classes have a verdict: blocks of a left class and a right class.

    Pairs of rows are numbered block by block, and in a block by the left row, then by the right row.
    """

    candidates: AllPairs
    classes: Classes
    verdict: int

    @cached_property
    def _sides(self) -> tuple[list[tuple[Ints, Ints]], list[tuple[Ints, Ints]]]:
        """Return for each class of each side its values, and the sums of their rows up to each of them."""
        shape, values = self.classes.verdict.shape, self.candidates.values
        found: tuple[list[tuple[Ints, Ints]], list[tuple[Ints, Ints]]] = ([], [])
        for side, (there, own) in enumerate(
            ((self.candidates.left, self.classes.left), (self.candidates.right, self.classes.right))
        ):
            counts = values.counts(side)
            for one in range(shape[side]):
                members = there[own[there] == one]
                found[side].append((members, np.cumsum(counts[members])))
        return found

    @cached_property
    def _blocks(self) -> list[tuple[int, int, int]]:
        """Return the classes of each block and its pairs of rows; empty blocks are left out."""
        left, right = self._sides
        found = []
        for a, b in np.argwhere(self.classes.verdict == self.verdict).tolist():
            if len(left[a][1]) and len(right[b][1]):
                found.append((a, b, int(left[a][1][-1]) * int(right[b][1][-1])))
        return found

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows in self._blocks)

    def pairs_of(self, ranks: Ints) -> Ints:
        left, right = self._sides
        ends = np.cumsum([rows for _, _, rows in self._blocks])
        blocks = np.searchsorted(ends, ranks, "right")
        count, result = len(self.candidates.values.found), np.empty(len(ranks), np.int64)
        for at in np.unique(blocks).tolist():
            a, b, rows = self._blocks[at]
            here = np.flatnonzero(blocks == at)
            within = ranks[here] - (int(ends[at]) - rows)
            width = int(right[b][1][-1])
            lefts = left[a][0][np.searchsorted(left[a][1], within // width, "right")]
            rights = right[b][0][np.searchsorted(right[b][1], within % width, "right")]
            result[here] = lefts * count + rights
        return result

    def rows_of(self, pairs: Ints) -> Ints:
        left, right = self._counts
        return left[pairs // len(left)] * right[pairs % len(left)]

    @cached_property
    def _counts(self) -> tuple[Ints, Ints]:
        return self.candidates.values.counts(0), self.candidates.values.counts(1)

    def blocks(self, size: int) -> Iterator[Ints]:
        left, right = self._sides
        for a, b, _ in self._blocks:
            yield from AllPairs(left[a][0], right[b][0], self.candidates.values).blocks(size)


class Draws:
    """Random pairs of rows with one verdict, without replacement."""

    def __init__(self, verdicts: Verdicts, seed: int) -> None:
        self._verdicts = verdicts
        self._rows = verdicts.rows
        self._rng = np.random.default_rng(seed)
        self._order = self._rng.permutation(self._rows) if self._rows <= _FEW else None
        self._done = 0
        self._drawn = np.empty(0, np.int64)
        """The drawn ranks in ascending order, where there is no permutation."""

    def next(self, count: int) -> Ints:
        """Return the pairs of values of further pairs of rows."""
        if self._order is not None:
            ranks = self._order[self._done : self._done + count]
            self._done += len(ranks)
            return self._verdicts.pairs_of(ranks)
        found = np.empty(0, np.int64)
        while len(found) < count:
            new = self._rng.integers(self._rows, size=count - len(found))
            new = new[np.sort(np.unique(new, return_index=True)[1])]
            new = new[~np.isin(new, self._drawn)]
            self._drawn = np.union1d(self._drawn, new)
            found = np.concatenate([found, new])
        return self._verdicts.pairs_of(found)
