"""Ask about the pairs of values with similar vectors, and reject the others.

The nearest pairs are cut into bands, each as large as all bands before it. Some random pairs of each band are asked.
They tell how many matching pairs the band has, and so how far to ask: a longer list of near pairs costs questions, and
a shorter one leaves matches in the rest, which makes the proof about the rest longer. The proof draws its own pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from flightllm.errors import InternalError
from flightllm.functions.join_wish import JoinWish
from flightllm.operators.joins.asked import YES, PairOracle
from flightllm.operators.joins.candidates import Candidates, SomePairs
from flightllm.operators.joins.classes import Near
from flightllm.operators.joins.near import Rest, Vectors, nearest, weights_of
from flightllm.operators.joins.values import Ints, Values
from flightllm.operators.joins.vectors import count_texts, vectors_of
from flightllm.quality.two_regions import draws_needed

ATTEMPTS: Final = 2
"""So many proofs can be tried, each with its share of the allowed error."""
_PILOT: Final = 48
"""The pairs of a band that are asked to choose the cut."""
_MOST_FORESEEN: Final = 4_096
"""A dry run embeds so many texts at most: of more, it would take too long, and can cost money."""
_MOST_NEAR: Final = 4_000_000
"""The most pairs that are kept as near: their questions cost far more than their memory."""


@dataclass(frozen=True, slots=True)
class Similar:
    """Finds near pairs to ask about."""

    candidates: Candidates
    values: Values
    oracle: PairOracle
    wish: JoinWish
    foreseen: bool = False
    """Whether this is a dry run, whose answers say nothing about the bands."""
    delta: float | None = None
    """The probability that one proof can be wrong; None for a share of that of the promise."""

    def near(self) -> Ints:
        """Return the pairs with the nearest vectors, the nearest first.

        Raises:
            FlightLLMError: as `vectors_of`.
        """
        numbers = np.union1d(self.candidates.left, self.candidates.right)
        if self.foreseen and len(numbers) > _MOST_FORESEEN:
            count_texts(numbers, self.values, self.oracle)
            return _any(self.candidates, len(self.values.found))
        most = min(self.candidates.distinct // 2, _MOST_NEAR)
        return nearest(self.candidates, self._vectors(numbers), most, self.oracle.pairs.runtime.cancelled)

    def cuts(self, near: Ints) -> Iterator[Near]:
        """Yield near pairs that are likely to make a proof possible: the cheapest ones, and then more of them.

        Raises:
            FlightLLMError: the questions fail as the call wishes.
            CancelledError: the query was cancelled.
        """
        ends = _ends(self.candidates, len(near))
        if not ends:
            return
        first = 0 if self.foreseen else self._cheapest(near, ends)
        while first is not None and first < len(ends):
            yield Near(np.sort(near[: ends[first]]))
            first += 2

    def _cheapest(self, near: Ints, ends: list[int]) -> int | None:
        """Return the band after which the rest is rejected; None where no proof is likely to be cheaper than asking."""
        weights = weights_of(self.candidates, near)
        rows = np.array([int(weights[start:end].sum()) for start, end in zip([0, *ends[:-1]], ends, strict=True)])
        rest = Rest(self.candidates, np.sort(near))
        rng = np.random.default_rng(_seed(len(near), self.candidates.rows))
        shares = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            places = start + rng.choice(end - start, min(_PILOT, end - start), replace=False)
            shares.append(float((self.oracle.ask(near[places]) == YES).mean()))
        far = 0.0
        if rest.rows:
            ranks = rng.integers(rest.rows, size=_PILOT)
            far = float((self.oracle.ask(rest.pairs_of(ranks)) == YES).mean())
        yes = rows * np.array(shares)
        recall, delta = self._recall_and_delta
        best: tuple[int, int] | None = None
        for band, end in enumerate(ends):
            sure, missed = int(yes[: band + 1].sum()), float(yes[band + 1 :].sum()) + far * rest.rows
            size = self.candidates.rows - int(rows[: band + 1].sum())
            draws = draws_needed(size, missed, sure, recall, delta) if sure else None
            if draws is not None and (best is None or end + draws < best[0]):
                best = end + draws, band
        return None if best is None or best[0] >= self.candidates.distinct else best[1]

    @property
    def _recall_and_delta(self) -> tuple[float, float]:
        targets = self.wish.targets
        if targets is None or targets.recall is None:
            raise InternalError("a join by similarity promises a recall")
        return targets.recall, targets.delta / ATTEMPTS if self.delta is None else self.delta

    def _vectors(self, numbers: Ints) -> Vectors:
        """Return the vector of each value of a side, by number."""
        return vectors_of(numbers, self.values, self.oracle)


def _any(candidates: Candidates, values: int) -> Ints:
    """Return as many pairs as the first band has, with all values of the larger side where all pairs can match."""
    size = max(len(candidates.left), len(candidates.right))
    if isinstance(candidates, SomePairs):
        return candidates.pairs[np.linspace(0, candidates.distinct - 1, size).astype(np.int64)]
    return np.resize(candidates.left, size) * values + np.resize(candidates.right, size)


def similar_prompts(candidates: Candidates, wish: JoinWish) -> int:
    """Return about how many questions the way asks if each value of the larger side has one match."""
    most, distinct = max(len(candidates.left), len(candidates.right)), candidates.distinct
    ends = _ends(candidates, min(distinct // 2, _MOST_NEAR))
    targets = wish.targets
    if not ends or targets is None or targets.recall is None:
        return distinct
    rest = max(0, candidates.rows - ends[0] * candidates.rows // max(1, distinct))
    sure = most * candidates.rows // max(1, distinct)
    draws = draws_needed(rest, 0.0, sure, targets.recall, targets.delta / ATTEMPTS)
    return distinct if draws is None else ends[0] + (len(ends) + 1) * _PILOT + draws


def _ends(candidates: Candidates, kept: int) -> list[int]:
    """Return the places in the list of near pairs at which a band ends."""
    size, ends = max(len(candidates.left), len(candidates.right)), []
    while size <= kept:
        ends.append(size)
        size *= 2
    return ends


def _seed(near: int, rows: int) -> int:
    """Return the same number for the same tables, so that a rerun asks about the same pairs."""
    return (near * 1_000_003 + rows) % (1 << 62)
