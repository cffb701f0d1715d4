"""Bounds on shares: exact values, and how often they miss."""

import numpy as np
import pytest
from scipy.stats import binom

from flightllm.learning.bounds import alpha_of_look, lower_bound, mean_bound, tries_needed


@pytest.mark.parametrize(("successes", "tries"), [(1, 1), (10, 10), (9, 10), (40, 50), (1, 200)])
def test_exact(successes: int, tries: int) -> None:
    """At the bound, as many successes or more have exactly the stated probability."""
    bound = lower_bound(successes, tries, 0.05)
    assert binom.sf(successes - 1, tries, bound) == pytest.approx(0.05)
    assert lower_bound(successes, tries, 0.01) < bound < successes / tries
    assert lower_bound(0, tries, 0.05) == 0.0
    assert lower_bound(0, 0, 0.05) == 0.0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
def test_rarely_misses(share: float) -> None:
    """The bound is above the true share with at most the stated probability, over all outcomes."""
    outcomes = range(41)
    missed = [at for at in outcomes if lower_bound(at, 40, 0.1) > share]
    assert binom.pmf(missed, 40, share).sum() <= 0.1


@pytest.mark.parametrize("target", [0.8, 0.9])
def test_looks(target: float) -> None:
    """Looks after each 25 rows certify what is just not true in at most 5 % of the runs."""
    looks, runs = 20, 400
    tries = [25 * look for look in range(1, looks + 1)]
    good = np.cumsum(np.random.default_rng(1).random((runs, tries[-1])) < target, axis=1)[:, 24::25]

    def certified(alphas: list[float]) -> float:
        least = [
            next(
                (one for one in range(int(target * count), count + 1) if lower_bound(one, count, alpha) >= target),
                count + 1,
            )
            for count, alpha in zip(tries, alphas, strict=True)
        ]
        return float((good >= least).any(axis=1).mean())

    assert certified([alpha_of_look(0.05, look) for look in range(1, looks + 1)]) <= 0.05
    assert certified([0.05] * looks) > 0.08, "one alpha for all looks does not hold"


def test_mean() -> None:
    """The bound on a mean holds for values at the ends, and is never above the largest value."""
    rng = np.random.default_rng(1)
    totals = rng.binomial(60, 0.3, 2_000) * 5.0
    assert np.mean([mean_bound(total, 60, 5.0, 0.1) < 1.5 for total in totals]) <= 0.1
    assert mean_bound(0.0, 0, 5.0, 0.1) == 5.0
    assert mean_bound(10.0, 2, 5.0, 0.1) == 5.0


def test_needed() -> None:
    """The tries that certify a target follow from the share; a share below the target never does."""
    assert tries_needed(0.8, 0.9, 0.05) is None
    needed = tries_needed(0.95, 0.9, 0.05)
    assert needed is not None
    assert lower_bound(int(0.95 * needed), needed, 0.05) >= 0.9
    assert needed > (tries_needed(0.99, 0.9, 0.05) or 0)
