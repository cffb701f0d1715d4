"""Exact intervals and tests for shares: Clopper and Pearson's interval, and McNemar's test.

Sources: Clopper and Pearson, "The Use of Confidence or Fiducial Limits", 1934; McNemar, "Note on the Sampling Error",
1947. The incomplete beta function is the continued fraction of the NIST Digital Library of Mathematical Functions,
8.17.22, by Lentz's method.
"""

import math
from dataclasses import dataclass
from typing import Final

CONFIDENCE: Final = 0.95
"""The confidence of all intervals."""
_STEPS: Final = 64
"""Halvings of an interval: as many as a float has bits, and more."""
_TINY: Final = 1e-300
_MOST_TERMS: Final = 100_000
_EXACT: Final = 1e-15


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure and the ends of its interval; all are NaN where nothing was measured."""

    value: float
    low: float
    high: float


UNKNOWN: Final = Figure(math.nan, math.nan, math.nan)


def share(successes: int, trials: int, confidence: float = CONFIDENCE) -> Figure:
    """Return a share of independent trials with its exact interval; unknown without trials."""
    if not trials:
        return UNKNOWN
    tail = (1 - confidence) / 2
    failures = trials - successes
    low = beta_quantile(tail, successes, failures + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, failures) if failures else 1.0
    return Figure(successes / trials, low, high)


def most_share(successes: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the largest share that this many successes do not refute, from one side."""
    return beta_quantile(confidence, successes + 1, trials - successes) if successes < trials else 1.0


def f1_of_counts(both: int, only_given: int, only_wanted: int) -> Figure:
    """Return the F1 of a yes/no question with its exact interval.

    `both` counts the rows where answer and label are yes. `only_given` counts those where only the answer is yes, and
    `only_wanted` those where only the label is yes. Among all these rows, let J be the share of the first kind. Then
    F1 = 2J / (1 + J), which grows with J. So the ends of the interval of J become those of F1.
    """
    found = share(both, both + only_given + only_wanted)
    return Figure(*(2 * one / (1 + one) for one in (found.value, found.low, found.high)))


def one_sided(better: int, worse: int) -> float:
    """Return the probability of at least `worse` rows out of both numbers if each row was equally likely."""
    return incomplete_beta(worse, better + 1, 0.5) if worse else 1.0


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return a quantile of the beta distribution with the parameters `a` and `b`, which exceed 0."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if incomplete_beta(a, b, middle) < probability else (low, middle)
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function; `a` and `b` exceed 0."""
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below the mean only
        return 1 - incomplete_beta(b, a, 1 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Return 1 / (1 + d1 / (1 + d2 / (1 + …))), computed from the front."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(_MOST_TERMS):
        m = term // 2
        if not term:
            part = 1.0
        elif term % 2:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _nonzero(1 + part * d)
        c = _nonzero(1 + part / c)
        value *= c * d
        if term and abs(1 - c * d) < _EXACT:
            break
    return value - 1


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
