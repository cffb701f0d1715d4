"""Choose the rows to ask next, where a few rows with the answer yes are wanted and any of them will do.

Two orders compete: rows as they come, and rows by a proxy's score. A score has a price too. Estimates steer the choice,
and prove nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from flightllm.quality.bins import Floats, Ints
from flightllm.quality.calibration import logits, rates

UNASKED: Final = -2
"""The answer to a unit that nobody has asked about. The others are 1 for yes, 0 for no, and -1 for a missing one."""
_CAUTION: Final = 0.75
"""A wave has this part of the units that are likely to be needed, because every superfluous one is wasted."""
_FIRST_WAVE: Final = 16
"""The most units that are asked or scored first; later, as many as so far."""
_FEWEST_PARTS: Final = 8
"""A part of a wave has at least this share of it: a wave divided by 8. Each part waits for the one before."""
_Rows_co = TypeVar("_Rows_co", covariant=True)
Move: TypeAlias = Literal["next", "score", "ask"]
"""Ask about the next units as they come, let the proxy score the next units, or ask about scored units."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The rows that are still wanted, and where to find them."""

    rows: int
    """The rows that are still wanted."""
    units: float
    """The units that nobody has looked at yet; infinite if that is not known."""
    room: float = inf
    """The questions that are still allowed."""


@dataclass(slots=True)
class LikelyFirst:
    """The units so far, and what they tell. One thread uses it.

    A unit is a distinct prompt and stands for one row or more. A question costs 1 and a score `price`. The units as
    they come have cost `asked` for `passed` rows. The scored units tell the likely cost of a further row by scores.

    The proxy is asked for a further score on two conditions. A row must be likely to cost less by scores. And its
    questions and scores so far must not cost a wave more than the same rows would have cost without it. So the whole
    costs a wave more than without a proxy at most, as far as units as they come tell their own cost.
    """

    price: float
    asked: int = 0
    """The units that were asked as they came."""
    passed: int = 0
    """The rows that passed among them."""
    by_score: int = 0
    """The units that were asked because of their scores."""
    by_score_passed: int = 0
    scores: Floats = field(default_factory=lambda: np.empty(0))
    """The probability of yes by the proxy, for each scored unit; NaN where the proxy failed."""
    weights: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The rows of each scored unit."""
    answers: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The answer to each scored unit."""
    _likely: Floats | None = None
    _best: Ints | None = None

    def add(self, scores: Floats, weights: Ints) -> Ints:
        """Add scored units, and return their numbers."""
        first = len(self.scores)
        self.scores = np.append(self.scores, scores)
        self.weights = np.append(self.weights, weights)
        self.answers = np.append(self.answers, np.full(len(scores), UNASKED, np.int64))
        self._likely = self._best = None
        return np.arange(first, len(self.scores))

    def tell(self, units: Ints, answers: Ints) -> None:
        """Take the answers to scored units."""
        self.answers[units] = answers
        self._likely = self._best = None

    @property
    def likely(self) -> Floats:
        """Return the estimated probability of yes of each scored unit: its score, as the answers so far correct it."""
        if self._likely is None:
            self._likely = self._estimated()
        return self._likely

    def best(self) -> Ints:
        """Return the scored units without an answer, those with the most likely rows first.

        A move reads the order several times, so it is kept until scores or answers come.
        """
        if self._best is None:
            left = np.flatnonzero(self.answers == UNASKED)
            gain = (self.likely * self.weights)[left]
            self._best = left[np.lexsort((-np.nan_to_num(self.scores[left]), -gain))]
        return self._best

    def wave(self, missing: Missing) -> int:
        """Return how many units as they come to ask next."""
        return max(1, ceil(missing.rows / max(self._rows_per_unit, 1)), int(_CAUTION * missing.rows * self._cost))

    def move(self, missing: Missing) -> tuple[Move, int]:
        """Return what to do next, with how many units. Of scored units, the first ones of `best` are meant."""
        if not missing.units:
            return "ask", self._tail(missing)
        wave = self.wave(missing)
        cost, gains = self._overall(), self._gains()
        prospect = self._prospect(gains)
        debt = self.by_score + self.price * len(self.scores) - self.by_score_passed * self._cost
        scarce = missing.room < missing.rows * self._cost
        trusted = debt <= wave and (prospect < cost or scarce)
        first = not self.asked and not scarce
        if first or not trusted or self._needs_all(missing, gains):
            return "next", min(wave, max(_FIRST_WAVE, self.asked))
        spare = max(wave - debt, wave / _FEWEST_PARTS)
        worthy = int(np.searchsorted(-gains, -1 / min(prospect, cost), "right"))
        if worthy:
            enough = int(np.searchsorted(np.cumsum(gains[:worthy]), missing.rows, "left")) + 1
            return "ask", min(enough, worthy, ceil(spare))
        affordable = spare / self.price if self.price else inf
        so_far = max(_FIRST_WAVE, self.asked + len(self.scores))
        return "score", ceil(max(1, min(affordable, missing.rows * cost, so_far)))

    @property
    def _cost(self) -> float:
        """The questions for a row, of units as they come; one row in two units is assumed before the first one."""
        return (self.asked + 2) / (self.passed + 1)

    @property
    def _rows_per_unit(self) -> float:
        return float(self.weights.mean()) if len(self.weights) else 1.0

    def _overall(self) -> float:
        """Return the questions for a row of units as they come, by all units: of scored ones, by their estimates."""
        rows = np.where(self.answers == UNASKED, self.likely, self.answers == 1) * self.weights
        return float((self.asked + len(rows) + 2) / (self.passed + rows.sum() + 1))

    def _gains(self) -> Floats:
        """Return the likely rows of each scored unit without an answer, the most first."""
        return (self.likely * self.weights)[self.best()]

    def _prospect(self, gains: Floats) -> float:
        """Return the cost of a row by scores, if further scores are like those so far and one is that of a sure row.

        It asks about as many of the likeliest units as make a row cheapest. Example: ten scores at a price of .1 cost
        1. With one sure unit, a row costs (1 + 1) / 1. With another one at a chance of a half, it costs (1 + 2) / 1.5.
        """
        known = self.answers != UNASKED
        every = np.sort(np.concatenate([[1.0], gains, (self.likely * self.weights)[known]]))[::-1]
        asked = np.arange(1, len(every) + 1)
        return float(((self.price * len(every) + asked) / np.maximum(np.cumsum(every), 1e-9)).min())

    def _needs_all(self, missing: Missing, gains: Floats) -> bool:
        """Return whether about all rows with yes are wanted: then every unit is asked, and scores save nothing."""
        return missing.units < inf and missing.rows >= gains.sum() + missing.units / self._overall()

    def _tail(self, missing: Missing) -> int:
        """Return how many scored units to ask where no others are left."""
        gains = self._gains()
        enough = int(np.searchsorted(np.cumsum(gains), missing.rows, "left")) + 1
        return min(enough, len(gains), max(self.wave(missing), int(_CAUTION * missing.rows * self._overall())))

    def _estimated(self) -> Floats:
        known = ~np.isnan(self.scores)
        found = np.full(len(self.scores), (self.passed + 1) / (self.asked + 2))
        if not known.any():
            return found
        odds = logits(self.scores[known])
        _, rank = np.unique(np.floor(odds), return_inverse=True)
        size = np.bincount(rank).astype(float)
        answers = self.answers[known]
        seen = np.bincount(rank[answers != UNASKED], minlength=len(size)).astype(float)
        hits = np.bincount(rank[answers == 1], minlength=len(size)).astype(float)
        middle = 1 / (1 + np.exp(-np.bincount(rank, odds) / size))
        found[known] = rates(hits, seen, middle)[rank]
        return found


class Asker(Protocol[_Rows_co]):
    """A source of units, whose model and proxy can be asked about them. It tells `LikelyFirst` what it learned."""

    def missing(self) -> Missing | None:
        """Return the rows that are still wanted; None ends the search."""

    def unasked(self) -> Iterator[_Rows_co] | None:
        """Return rows that need no question now; None if there are no such rows."""

    def ask(self, units: Ints) -> Iterator[_Rows_co]:
        """Ask about scored units."""

    def take(self, count: int, *, scored: bool) -> Iterator[_Rows_co]:
        """Take the next units as they come: let the proxy score them, or ask about them."""


def search(order: LikelyFirst, asker: Asker[_Rows_co]) -> Iterator[_Rows_co]:
    """Yield rows as `asker` finds them, by the moves of `order`."""
    while (missing := asker.missing()) is not None:
        found = asker.unasked()
        if found is None:
            move, count = order.move(missing)
            found = asker.ask(order.best()[:count]) if move == "ask" else asker.take(count, scored=move == "score")
        yield from found


@dataclass(frozen=True, slots=True)
class Effort:
    """The work that finds some rows."""

    asked: float
    """The units that are asked."""
    scored: float
    """The units that the proxy scores."""
    found: float
    """The rows with yes that are found; fewer than wanted if there are no more."""


@dataclass(slots=True)
class _Foreseen:
    """Units whose answers are assumed. It has no rows to return, and counts the work."""

    order: LikelyFirst
    scores: Floats
    truth: NDArray[np.bool_]
    wanted: int
    read: int = 0
    asked: int = 0
    found: int = 0
    scored: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The place of each scored unit among all units."""

    def missing(self) -> Missing | None:
        left = len(self.scores) - self.read
        more = self.found < self.wanted and (left or len(self.order.best()))
        return Missing(self.wanted - self.found, left) if more else None

    def unasked(self) -> None:
        return None

    def ask(self, units: Ints) -> Iterator[None]:
        yes = self.truth[self.scored[units]]
        self.order.tell(units, yes.astype(np.int64))
        self.order.by_score += len(units)
        self.order.by_score_passed += int(yes.sum())
        self._count(yes)
        yield from ()

    def take(self, count: int, *, scored: bool) -> Iterator[None]:
        units = np.arange(self.read, min(self.read + count, len(self.scores)))
        self.read += len(units)
        if scored:
            self.order.add(self.scores[units], np.ones(len(units), np.int64))
            self.scored = np.append(self.scored, units)
        else:
            self.order.asked += len(units)
            self.order.passed += int(self.truth[units].sum())
            self._count(self.truth[units])
        yield from ()

    def _count(self, yes: NDArray[np.bool_]) -> None:
        self.found += int(yes.sum())
        self.asked += len(yes)


def effort(scores: Floats, truth: NDArray[np.bool_], rows: int, price: float) -> Effort:
    """Find `rows` units with yes, and return what it took; the arrays have an entry for each unit as it comes."""
    foreseen = _Foreseen(LikelyFirst(price), scores, truth, rows)
    for _ in search(foreseen.order, foreseen):
        pass
    return Effort(foreseen.asked, len(foreseen.scored), min(foreseen.found, rows))
