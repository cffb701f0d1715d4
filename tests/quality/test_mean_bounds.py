"""The interval of a mean by bets."""

import numpy as np
import pytest

from flightllm.quality.mean_bounds import MeanBounds


def _of(values: np.ndarray, rate: float = 0.5) -> MeanBounds:
    bounds, size = MeanBounds(0.05), len(values)
    bounds.add(values, np.ones(size), np.full(size, rate), np.full(size, rate))
    return bounds


def test_no_draw_tells_nothing() -> None:
    """Without a draw the mean can be any, and the middle is in the middle."""
    bounds = MeanBounds(0.05)
    assert (bounds.low, bounds.high, bounds.middle()) == (0.0, 1.0, 0.5)
    assert bounds.lacking(0.1) == pytest.approx(np.log(40))


def test_the_interval_narrows_and_never_widens() -> None:
    """More draws make the interval narrow; draws that disagree with it do not make it wide."""
    bounds = MeanBounds(0.05)
    widths = []
    for values in (np.tile([0.0, 1.0], 50), np.tile([0.0, 1.0], 200), np.ones(5)):
        bounds.add(values, np.ones(len(values)), np.full(len(values), 0.2), np.full(len(values), 0.2))
        widths.append(bounds.high - bounds.low)
        assert bounds.low <= bounds.middle() <= bounds.high
    assert widths == sorted(widths, reverse=True)
    assert widths[1] < 0.35


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_values_shut_out_the_other_end(value: float) -> None:
    """All draws at one end leave that end in the interval."""
    bounds = _of(np.full(200, value))
    assert bounds.low <= value <= bounds.high
    assert bounds.high - bounds.low < 0.05


def test_what_is_certain_narrows_too() -> None:
    """An interval that holds for certain is cut out of the present one, and never leaves it empty."""
    bounds = MeanBounds(0.05)
    bounds.within(0.2, 0.4)
    assert (bounds.low, bounds.high) == (0.2, 0.4)
    bounds.within(0.6, 0.9)
    assert bounds.low == bounds.high


def test_lacking_falls_to_nothing() -> None:
    """What the capitals lack falls as draws come."""
    few, many = _of(np.tile([0.0, 1.0], 20), 0.2), _of(np.tile([0.0, 1.0], 400), 0.2)
    assert many.lacking(0.05) < few.lacking(0.05)
    assert many.lacking(0.4) == 0.0
