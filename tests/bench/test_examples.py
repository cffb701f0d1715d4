"""The figures about examples: their intervals, and the way from probabilities to them."""

import numpy as np
import pytest

from bench.examples import calibration_error, figures, wilson


def test_wilsons_interval() -> None:
    """It is that of the textbook: 8 of 10 are 49 to 94 %; of no or all rows it stays within 0 and 1."""
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=1e-3)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1


def test_calibration_error() -> None:
    """A model that is right as often as it says has none; one that is always sure and half right has 0.5."""
    wanted = np.array([0, 1] * 10)
    assert calibration_error(np.tile([0.5, 0.5], (20, 1)), wanted) == pytest.approx(0)
    assert calibration_error(np.tile([1.0, 0.0], (20, 1)), wanted) == pytest.approx(0.5)


def test_figures_of_a_biased_model() -> None:
    """A model that ranks all rows right and says No to all: the moved cut has all rows right, and the area is 1."""
    wanted = [0, 1] * 24
    biased = [[0.3, 0.7] if place == 0 else [0.1, 0.9] for place in wanted]
    moved = [[0.6, 0.4] if place == 0 else [0.3, 0.7] for place in wanted]
    found = figures(
        {"wanted": wanted, "raw": biased, "plain": biased, "batch": moved, "examples": moved, "offsets": [1, 0]}
    )
    assert found["raw"]["accuracy"][0] == 0.5
    assert found["examples"]["accuracy"][0] == found["raw"]["area"][0] == 1
    assert found["examples"]["gain"][0] == 0.5
    assert 0.3 < found["batch"]["gain"][1] < 0.5 < found["batch"]["gain"][2] < 0.7
    assert found["plain"]["gain"] == [0, 0, 0]
