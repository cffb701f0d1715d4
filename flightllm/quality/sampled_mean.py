"""The mean of a model's answers over all rows, from the answers about some of them.

A unit is a distinct prompt; its weight is the number of rows that have it. Units are drawn one after the other, with
probabilities that grow with their weights and with the likely errors of their predictions. So a prediction from a cheap
model makes the interval narrow, and a wrong prediction only makes the interval wide.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from flightllm.quality.bins import Floats, Ints
from flightllm.quality.mean_bounds import MeanBounds

FEWEST_UNITS: Final = 60
"""Of fewer units, all are asked."""
_FIRST: Final = 64
_GROWTH: Final = 0.5
"""A wave has as many units as this share of all earlier ones."""
_CAUTION, _SHARE, _LEAST = 0.75, 0.04, 8
"""A wave has no more than this share of the units that seem to be needed: an answer too many is bought in vain."""
_NEARLY_ALL: Final = 0.85
"""Where the interval is likely to need more than this share of units, all are asked: the mean is exact then."""
_FLOORS: Final = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
"""The least probability of a unit, as a share of the greatest one; the best of these is taken for each wave."""
_FIRST_FLOORS: Final = (1.0, 0.7)
"""Those of the first wave, when scores are not yet compared with any answer."""
_SAFE: Final = 0.9
"""A bet risks at most this share of its capital."""
_PRIOR_DRAWS: Final = 12
_KEPT: Final = 0.25
"""How much of earlier waves counts: their predictions knew less than those of the latest wave."""
Reason: TypeAlias = Literal["", "narrow", "exact", "label_budget", "budget"]
"""Why no more units are asked: the interval is narrow enough, every unit is known, or a budget is spent."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and an interval that holds the mean of all rows with the stated confidence at every wave."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class _Wave:
    """The drawn units of a wave, and what was fixed before the draw."""

    units: Ints
    expected: Floats
    spread: Floats
    odds: Floats
    answered: float


class SampledMean:
    """Ask units in waves, until the interval of their mean is narrow enough.

    Values lie in [0, 1]. With `skips`, a unit without an answer is left out of the mean; otherwise its value is 0. The
    same chances, answers and predictions repeat the same questions.
    """

    def __init__(
        self,
        weights: Ints,
        known: Floats,
        chances: Floats,
        *,
        within: float,
        confidence: float,
        skips: bool = False,
        fixed_rows: int = 0,
    ) -> None:
        """`known` has the value of each unit whose answer is known, and NaN for the others.

        `chances` decide the draws: one number in (0, 1) for each unit, at random and apart from the answers.
        `fixed_rows` counts further rows whose value is 0. `within` is half the width of the wanted interval.
        """
        self._weights = weights.astype(np.float64)
        self._values = known.copy()
        self._unasked = np.isnan(known)
        self._within, self._skips = within, skips
        self._times = -np.log1p(-chances)  # exponential; odds divide them, and the smallest quotient is drawn first
        self._bounds = MeanBounds(1 - confidence)
        there = ~self._unasked
        self._sum = float(self._weights[there] @ known[there])
        self._count = float(self._weights[there].sum()) + fixed_rows
        self._failed = self._draws = 0
        self._errors, self._foreseen = 0.0, 0.0
        self._wave: _Wave | None = None
        self.asked = 0
        """The units that were asked."""
        self.reason: Reason = ""
        self._close()

    @property
    def done(self) -> bool:
        """Return whether no more units are asked."""
        return bool(self.reason)

    @property
    def missed(self) -> bool:
        """Return whether a budget ended the asking before the interval was narrow enough."""
        return self.reason in {"budget", "label_budget"}

    def estimate(self) -> Estimate:
        """Return the mean and its interval; there is no mean where no row has an answer."""
        if not self._left and not self._count:
            return Estimate(None, None, None)
        bounds = self._bounds
        value = bounds.middle()
        if bounds.high - bounds.low <= 2 * self._within:  # the interval lies within the promised distance of the value
            value = min(max(value, bounds.high - self._within), bounds.low + self._within)
        return Estimate(value, bounds.low, bounds.high)

    def needed(self, expected: Floats, spread: Floats) -> int:
        """Return about how many units must still be asked, if predictions err as `spread` says."""
        left = np.flatnonzero(self._unasked)
        if len(left) < FEWEST_UNITS:
            return len(left)
        needed = min(self._plan(left, expected[left], spread[left], floor)[0] for floor in _FLOORS)
        return len(left) if needed >= _NEARLY_ALL * len(left) else math.ceil(needed)

    def next_wave(self, expected: Floats, spread: Floats, most: float = math.inf) -> Ints:
        """Return the units to ask now, at most `most` of them; an empty array when the asking has ended.

        `expected` predicts the value of each unit, and `spread` the usual error of this prediction. Both can depend on
        answers to earlier waves.
        """
        if self.done:
            return np.empty(0, np.int64)
        left = np.flatnonzero(self._unasked)
        expected, spread = np.clip(expected[left], 0.0, 1.0), np.maximum(spread[left], 1e-3)
        floors = _FLOORS if self._draws else _FIRST_FLOORS
        plans = [(self._plan(left, expected, spread, floor)[0], floor) for floor in floors]
        needed, floor = min(plans)
        if (size := int(min(self._size(len(left), needed, most), most))) < 1:
            self.stop("label_budget")
            return np.empty(0, np.int64)
        odds = self._plan(left, expected, spread, floor)[1]
        times = self._times[left] / odds
        order = np.argsort(times, kind="stable")
        chosen = order[:size]
        # The rests of the other times are exponential again, and apart from the draws so far.
        self._times[left] = np.maximum(self._times[left] - times[chosen[-1]] * odds, 1e-300)
        self._wave = _Wave(left[order], expected[order], spread[order], odds[order], self._answered)
        return left[chosen]

    def _size(self, left: int, needed: float, most: float) -> int:
        if left < FEWEST_UNITS:
            return left
        if not self._draws:
            return min(_FIRST, left)  # the first answers show how many are needed
        if needed >= _NEARLY_ALL * left and self._draws > _FIRST:
            return left if left <= most else math.ceil(_GROWTH * self._draws)
        likely = max(_CAUTION * needed, _SHARE * self._draws) + _LEAST
        return min(max(_FIRST, math.ceil(_GROWTH * self._draws)), math.ceil(likely), left)

    def tell(self, values: Floats) -> None:
        """Take the values of the units of the last wave, in its order; NaN where there is no answer.

        Raises:
            ValueError: the number of values is not that of the units.
        """
        wave, self._wave = self._wave, None
        if wave is None or len(values) > len(wave.units):
            raise ValueError("Tell the values of exactly the units of the last wave.")
        size = len(values)
        there = ~np.isnan(values) if self._skips else np.ones(size, bool)
        self._bet(wave, np.nan_to_num(values), there)
        units = wave.units[:size]
        self._values[units], self._unasked[units] = np.nan_to_num(values), False
        weights = self._weights[units]
        self._sum += float(weights[there] @ values[there]) if self._skips else float(weights @ np.nan_to_num(values))
        self._count += float(weights[there].sum())
        self._failed += int((~there).sum())
        self._draws += size
        self.asked += size
        self._close()

    def stop(self, reason: Reason) -> None:
        """End the asking: the answers to the last wave do not come."""
        self._wave, self.reason = None, reason

    # --- the bets

    @property
    def _left(self) -> float:
        """The rows whose answers are not known."""
        return float(self._weights[self._unasked].sum())

    @property
    def _answered(self) -> float:
        """The expected share of units with an answer."""
        return 1 - (self._failed / (self._draws + 1) if self._failed else 0.0)

    @property
    def _scale(self) -> float:
        """How much greater squared errors are than the predictions said."""
        found = (_PRIOR_DRAWS + self._errors) / (_PRIOR_DRAWS + self._foreseen)
        return min(max(found, 0.1), 10.0)

    def _plan(self, left: Ints, expected: Floats, spread: Floats, floor: float) -> tuple[float, Floats]:
        """Return about how many draws the interval needs, and the odds of the units, for a least probability."""
        weights = self._weights[left]
        odds = weights * np.maximum(spread, floor * spread.max())
        total = odds.sum()
        variance = self._scale * float((weights**2 * spread**2 / odds).sum() * total)
        target = self._within * (self._count + self._left)
        most = max(*_risks(weights / odds * total, expected, self._answered, self._bounds.low, self._bounds.high))
        rate = min(target / variance, _SAFE / max(most + target, 1e-9))
        growth = rate * target - rate**2 * variance / 2
        draws = self._bounds.lacking(self._within) / max(growth, 1e-12)
        return draws / (1 + draws / len(left)), odds  # estimates improve while units are used up

    def _bet(self, wave: _Wave, values: Floats, there: Floats) -> None:
        """Bet on each drawn unit in turn."""
        size, share = len(values), wave.answered
        weights, odds = self._weights[wave.units], wave.odds
        drawn, own = weights[:size], odds[:size]
        before = np.concatenate([[0.0], np.cumsum(drawn)[:-1]]) if size else np.empty(0)
        totals = odds[::-1].cumsum()[::-1][:size]  # the odds that are left at each draw
        inverse = drawn / own * totals
        expected = share * wave.expected
        rest_sum = (weights * expected)[::-1].cumsum()[::-1][:size]
        rest_count = share * (weights.sum() - before)
        seen_sum = self._sum + np.concatenate([[0.0], np.cumsum(drawn * there * values)[:-1]])[:size]
        seen_count = self._count + np.concatenate([[0.0], np.cumsum(drawn * there)[:-1]])[:size]
        base_sum, base_count = seen_sum + rest_sum, seen_count + rest_count
        sums = base_sum + inverse * (there * values - expected[:size])
        counts = base_count + inverse * (there - share)

        low, high = self._bounds.low, self._bounds.high
        ratios = weights / odds
        variance = float((weights**2 * wave.spread**2 / odds).sum() / odds.sum()) * totals**2
        target = self._within * (self._count + self._left)
        wanted = target / (self._scale * variance)
        down = [
            _loss(ratios, wave.expected, share, mean) * totals - (base_sum - mean * base_count) for mean in (low, high)
        ]
        up = [
            _gain(ratios, wave.expected, share, mean) * totals + (base_sum - mean * base_count) for mean in (low, high)
        ]
        above = np.minimum(wanted, _SAFE / np.maximum(np.maximum(*down), 1e-9))
        below = np.minimum(wanted, _SAFE / np.maximum(np.maximum(*up), 1e-9))
        self._bounds.add(sums, counts, above, below)
        middle = self._bounds.middle()
        errors = inverse * (there * (values - middle) - (expected[:size] - share * middle))
        self._errors = _KEPT * self._errors + float((errors**2 / variance).sum())
        self._foreseen = _KEPT * self._foreseen + size

    def _close(self) -> None:
        """Narrow the interval to what is possible, and end the asking where nothing more is needed."""
        left, count = self._left, self._count
        if count + left:
            self._bounds.within(self._sum / (count + left), (self._sum + left) / (count + left))
        if not left:
            if count:
                self._bounds.low = self._bounds.high = self._sum / count
            self.reason = "exact"
        elif self._bounds.high - self._bounds.low <= 2 * self._within:
            self.reason = "narrow"


def _loss(ratios: Floats, expected: Floats, share: float, mean: float) -> float:
    """Return how far a drawn unit can fall below its prediction, at most."""
    return float((ratios * ((1 - share) * mean + share * expected)).max())


def _gain(ratios: Floats, expected: Floats, share: float, mean: float) -> float:
    """Return how far a drawn unit can rise above its prediction, at most."""
    return float((ratios * (1 - (1 - share) * mean - share * expected)).max())


def _risks(ratios: Floats, expected: Floats, share: float, low: float, high: float) -> tuple[float, float]:
    return _loss(ratios, expected, share, high), _gain(ratios, expected, share, low)
