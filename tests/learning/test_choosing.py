"""The rows to label next: near the cut, and unlike each other."""

import numpy as np

from flightllm.learning.choosing import next_rows


def test_near_and_apart() -> None:
    """The nearest row is first; then come rows far from the chosen ones, but none far from the cut."""
    margins = np.array([0.1, 0.2, 0.1, 9.0, *np.full(20, 5.0)])
    inputs = np.array([[0.0], [0.0], [9.0], [99.0], *[[1.0]] * 20])
    assert list(next_rows(margins, inputs, 2)) == [0, 2]
    assert 3 not in next_rows(margins, inputs, 3)


def test_as_many_as_there_are() -> None:
    """Each row is chosen once; rows with an unknown margin come last."""
    margins = np.array([np.nan, 1.0, 0.5])
    assert list(next_rows(margins, np.zeros((3, 2)), 9)) == [2, 1, 0]
    assert list(next_rows(np.full(3, np.nan), np.zeros((3, 1)), 2)) == [0, 1]
    assert list(next_rows(np.zeros(0), np.zeros((0, 1)), 2)) == []


def test_better_than_chance() -> None:
    """Rows of several groups at the cut are found with few labels."""
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 5, 200)
    inputs = np.eye(5)[groups] + 0.01 * rng.normal(size=(200, 5))
    assert set(groups[next_rows(np.zeros(200), inputs, 5)]) == set(range(5))
