"""The bound on the ones among rows holds at every moment, whoever stops the drawing and when."""

import numpy as np
import pytest

from flightllm.quality.count_bound import CountBound


def test_example() -> None:
    """The example of the class is right, and without a draw nothing is known."""
    bound = CountBound(1_000, 0.025, 100)
    assert bound.upper(0, 60) == 64
    assert bound.upper(0, 0) == 1_000
    assert bound.upper(3, 1_000) == 3


def test_large_populations() -> None:
    """Ten billion rows are bounded as shares are."""
    share = CountBound(10**10, 0.025, 10**9).upper(0, 60) / 10**10
    assert share == pytest.approx(0.066, abs=0.005)


@pytest.mark.parametrize(("size", "ones"), [(500, 0), (500, 20), (500, 250), (5_000, 60)])
def test_coverage_at_every_moment(size: int, ones: int) -> None:
    """In at most the allowed share of runs, the bound is below the count at any of the draws."""
    missed, runs = 0, 60
    for seed in range(runs):
        drawn = np.random.default_rng(seed).permutation(size) < ones
        bound = CountBound(size, 0.1, size / 20)
        found = np.cumsum(drawn)
        missed += any(bound.upper(int(found[n - 1]), n) < ones for n in range(1, size + 1, 37))
    assert missed <= 0.1 * runs
