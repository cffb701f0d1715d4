"""A confidence sequence for a mean of values from 0 to 1, by bets on units that are drawn without replacement.

Before each draw, a prediction of every unit is fixed, and the probability with which each unit is drawn. The drawn
unit's value, divided by its probability, gives an unbiased estimate of the sum over all units. For a candidate mean
m, a bet on "the mean is higher than m" multiplies a capital by 1 + rate * (estimate - m * count). If m is the mean,
the capital is a martingale, so it reaches 2 / alpha with probability alpha / 2 at most (Ville). Another bet says
"lower". The interval holds all m whose capitals stayed below, and it is valid at every draw.

Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"; Shekhar et al.,
"Risk-limiting financial audits via weighted sampling without replacement".
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from flightllm.quality.bins import Floats

_STEPS = 48
"""The halvings that find the end of an interval."""


@dataclass
class MeanBounds:
    """The interval of a mean. It starts as [0, 1] and can only become narrower."""

    alpha: float
    low: float = field(default=0.0, init=False)
    high: float = field(default=1.0, init=False)
    _sums: list[Floats] = field(default_factory=list, init=False)
    _counts: list[Floats] = field(default_factory=list, init=False)
    _above: list[Floats] = field(default_factory=list, init=False)
    _below: list[Floats] = field(default_factory=list, init=False)

    @property
    def bound(self) -> float:
        """The logarithm of a capital that refuses a mean."""
        return float(np.log(2 / self.alpha))

    def add(self, sums: Floats, counts: Floats, above: Floats, below: Floats) -> None:
        """Take the estimates of some draws, and narrow the interval.

        `sums` and `counts` estimate the sum and the count, each without bias given the draws before. `above` and
        `below` are the rates of the two bets. A rate depends on earlier draws only, and lets no capital fall below 0
        for a mean in the present interval.
        """
        self._sums.append(sums)
        self._counts.append(counts)
        self._above.append(above)
        self._below.append(below)
        raised, lowered = self._capitals()
        low, high, bound = self.low, self.high, self.bound
        if raised(low) >= bound:
            self.low = _end(raised, bound, low, high)
        if lowered(high) >= bound:
            self.high = max(_end(lowered, bound, high, self.low), self.low)

    def lacking(self, within: float) -> float:
        """Return how much the logarithm of a capital must grow until the ends are near enough to the middle."""
        middle, lacking = self.middle(), 0.0
        for mean, capital in zip((middle - within, middle + within), self._capitals(), strict=True):
            if self.low < mean < self.high:
                lacking = max(lacking, self.bound - capital(mean))
        return lacking

    def within(self, low: float, high: float) -> None:
        """Narrow the interval to one that holds for certain."""
        self.low = min(max(self.low, low), high)
        self.high = max(min(self.high, high), self.low)

    def middle(self) -> float:
        """Return the mean that the draws suggest, each as sure as its bet was. Before the first draw, it is the middle.

        The result lies in the interval.
        """
        if not self._sums:
            return (self.low + self.high) / 2
        rates = np.concatenate(self._above) + np.concatenate(self._below)
        count = float(rates @ np.concatenate(self._counts))
        mean = float(rates @ np.concatenate(self._sums)) / count if count > 0 else self.low
        return min(max(mean, self.low), self.high)

    def _capitals(self) -> tuple[Callable[[float], float], Callable[[float], float]]:
        """Return the logarithms of the capitals of "higher" and "lower", for a candidate mean."""
        if not self._sums:
            return (lambda _: 0.0), (lambda _: 0.0)
        sums, counts = np.concatenate(self._sums), np.concatenate(self._counts)
        above, below = np.concatenate(self._above), np.concatenate(self._below)
        return (
            lambda mean: _log_capital(above * (sums - mean * counts)),
            lambda mean: _log_capital(-below * (sums - mean * counts)),
        )


def _log_capital(gains: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log1p(np.maximum(gains, -1.0)).sum())


def _end(capital: Callable[[float], float], bound: float, refused: float, other: float) -> float:
    """Return where a capital falls to its bound, between a refused mean and the other end of the interval.

    The logarithm of a capital is concave in the mean, so the refused means on one side are one interval.
    """
    if capital(other) >= bound:
        return other
    inside, outside = refused, other
    for _ in range(_STEPS):
        half = (inside + outside) / 2
        if capital(half) >= bound:
            inside = half
        else:
            outside = half
    return inside
