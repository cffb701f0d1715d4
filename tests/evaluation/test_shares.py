"""Exact intervals and tests, against statsmodels' and scipy's values."""

import numpy as np
import pytest
from scipy import stats

from flightllm.evaluation.shares import f1_of_counts, most_share, one_sided, share


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (10, 10), (81, 263), (1, 1000), (499, 500), (7, 100_000)])
def test_share_has_the_exact_interval(successes: int, trials: int) -> None:
    """The interval is that of scipy's exact binomial test."""
    found = share(successes, trials)
    wanted = stats.binomtest(successes, trials).proportion_ci(0.95, "exact")
    assert found.value == successes / trials
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-8, abs=1e-12)


def test_share_without_trials_is_unknown() -> None:
    """There is no share of nothing."""
    assert np.isnan(share(0, 0).value)


@pytest.mark.parametrize(("better", "worse"), [(3, 12), (0, 6), (20, 35), (7, 7), (9, 0)])
def test_one_sided_is_the_binomial_test(better: int, worse: int) -> None:
    """The p-values are those of scipy's binomial test."""
    greater = stats.binomtest(worse, better + worse, alternative="greater").pvalue
    assert one_sided(better, worse) == pytest.approx(greater, rel=1e-9)


def test_one_sided_limit_is_exact() -> None:
    """No success in 10 trials does not refute a share of 1 - .05 ** (1 / 10)."""
    assert most_share(0, 10) == pytest.approx(1 - 0.05**0.1)
    assert most_share(10, 10) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("both", "only_given", "only_wanted"), [(3, 2, 4), (40, 10, 5), (12, 0, 1)])
def test_interval_of_f1_covers_the_truth(both: int, only_given: int, only_wanted: int) -> None:
    """Among simulated tables with this F1, at least 95 % have an interval that covers it."""
    random = np.random.default_rng(5)
    total = both + only_given + only_wanted
    true = f1_of_counts(both, only_given, only_wanted).value
    assert true == pytest.approx(2 * both / (2 * both + only_given + only_wanted))
    shares = [both / total, only_given / total, only_wanted / total]
    found = [f1_of_counts(*map(int, random.multinomial(total, shares))) for _ in range(400)]
    covered = np.mean([one.low <= true <= one.high for one in found])
    assert covered > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)
