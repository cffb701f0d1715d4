"""An upper bound on the ones among rows that are drawn without replacement, valid at every moment.

It is the prior-posterior ratio of Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement"
(NeurIPS 2020). With BB(k; N, a, b), the beta-binomial probability, x ones in n of N rows leave the counts k with
BB(k; N, a, b) / BB(k - x; N - n, a + x, b + n - x) < 1 / alpha. With probability 1 - alpha, the true count is among
them after each draw. The prior is fixed before the first label.
"""

from dataclasses import dataclass
from math import lgamma, log

_RARER = 10
"""The prior expects this many times fewer ones than the user allows: then a sample without ones proves the most."""


@dataclass(frozen=True)
class CountBound:
    """Bound the ones of `size` rows with probability 1 - `alpha`; about `expected` ones are what the user allows.

    Example: of 1,000 rows, 60 drawn rows without a one leave at most 64 ones, with alpha 0.025 and 100 expected ones.
    """

    size: int
    alpha: float
    expected: float

    def upper(self, found: int, drawn: int) -> int:
        """Return the most ones among all rows, after `found` ones in `drawn` rows."""
        most = self.size - (drawn - found)
        if drawn == 0:
            return most
        least = min(most, max(found, round(found / drawn * self.size)))
        limit = log(1 / self.alpha)
        if self._ratio(most, found, drawn) < limit:
            return most
        low, high = least, most  # the ratio grows above the likeliest count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._ratio(middle, found, drawn) < limit else (low, middle)
        return low

    def _ratio(self, count: int, found: int, drawn: int) -> float:
        a, b = 1.0, max(1.0, _RARER * self.size / max(self.expected, 1.0))
        prior = _log_probability(count, self.size, a, b)
        return prior - _log_probability(count - found, self.size - drawn, a + found, b + drawn - found)


def _log_probability(ones: int, size: int, a: float, b: float) -> float:
    """Return the logarithm of the beta-binomial probability."""
    chosen = lgamma(size + 1) - lgamma(ones + 1) - lgamma(size - ones + 1)
    return chosen + _log_beta(ones + a, size - ones + b) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
