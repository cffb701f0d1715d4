"""The bound on the share of rows that agree."""

import random

import pytest

from flightllm.quality.agreement import LOOKS, MISTAKE, Agreement, can_reach, least_share


@pytest.mark.parametrize(("agreed", "compared", "least"), [(0, 0, 0.0), (0, 9, 0.0), (48, 48, 0.9260), (10, 20, 0.272)])
def test_least_share(agreed: int, compared: int, least: float) -> None:
    """The bound is that of the exact binomial test: with all of n, the n-th root of the mistake."""
    assert least_share(agreed, compared, 0.025) == pytest.approx(least, abs=5e-4)


def test_can_reach() -> None:
    """With two looks, 128 rows allow 5 differences for 90 %, and none of 128 shows 99 %."""
    assert can_reach(0.9, Agreement(48, 43), LOOKS[-1])
    assert not can_reach(0.9, Agreement(48, 40), LOOKS[-1])
    assert not can_reach(0.99, Agreement(0, 0), LOOKS[-1])


def test_mistakes() -> None:
    """Where fewer rows agree than the target, a look at both times rarely says that enough do."""
    draw, wrong, runs, target = random.Random(7), 0, 600, 0.9  # noqa: S311 - a fixed draw
    for _ in range(runs):
        rows = [draw.random() < target - 0.001 for _ in range(LOOKS[-1])]
        wrong += any(Agreement(look, sum(rows[:look])).least >= target for look in LOOKS)
    assert wrong / runs <= MISTAKE + 0.02
