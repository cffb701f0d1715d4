"""Percentile intervals of draws, for figures without an exact interval. The seed is fixed, so that a rerun repeats.

Source of the bootstrap: Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.evaluation.shares import CONFIDENCE, UNKNOWN, Figure

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_SEED: Final = 20_261
_DRAWS: Final = 1_000
_TEST_DRAWS: Final = 2_000
"""The draws of a test: its least p-value must stay small after a correction for many variants."""
_COUNTED_DRAWS: Final = 10_000
"""The same for draws of counts, which are quick."""
_FEWEST_DRAWS: Final = 200
_MOST_CELLS: Final = 10_000_000
"""The most values that all draws of rows read together: large samples have fewer draws."""
_TAIL: Final = 100 * (1 - CONFIDENCE) / 2


def of_rows(rows: int, figure: Callable[[NDArray[np.intp]], float]) -> Figure:
    """Return a figure of numbered rows with its interval; `figure` computes it from the numbers of some rows."""
    if not rows:
        return UNKNOWN
    drawn = _drawn(rows, figure)
    return _between(figure(np.arange(rows)), drawn)


def of_counts(counts: Whole, figures: Callable[[Numbers], Sequence[Numbers]], number: int) -> list[Figure]:
    """Return `number` figures of counted kinds of rows with their intervals, which come from the same draws.

    `counts` has any shape. `figures` takes draws of it, with the draws as the first axis. It returns an array of one
    value for each draw, for each figure. The draws are shares of all kinds by their posterior distribution, with one
    row spread evenly over all kinds as the prior. A bootstrap of only right answers would have an interval of no width.
    Source: Goutte and Gaussier, "A Probabilistic Interpretation of Precision, Recall and F-Score", 2005.
    """
    if not counts.sum():
        return [UNKNOWN] * number
    drawn = np.random.default_rng(_SEED).dirichlet(counts.ravel() + 1 / counts.size, size=_DRAWS)
    values = figures(counts[np.newaxis].astype(np.float64))
    return [
        _around(float(value[0]), draws)
        for value, draws in zip(values, figures(drawn.reshape(_DRAWS, *counts.shape)), strict=True)
    ]


def _around(value: float, drawn: Numbers) -> Figure:
    """Return a figure with the interval of its draws, which is widened to hold the figure."""
    found = _between(value, drawn)
    return Figure(value, min(value, found.low), max(value, found.high))


def not_better(rows: int, difference: Callable[[NDArray[np.intp]], float]) -> float:
    """Return the one-sided p-value of a difference above 0, from draws of numbered rows.

    Some draws have the difference at 0 or below. With one more for the sample itself, their share is the p-value.
    """
    return _share_not_above(_drawn(rows, difference, _TEST_DRAWS)) if rows else 1.0


def not_better_by_counts(counts: Whole, difference: Callable[[Numbers], Numbers]) -> float:
    """Return the same from draws of counted kinds of rows; see `of_counts`."""
    total = int(counts.sum())
    if not total:
        return 1.0
    drawn = np.random.default_rng(_SEED).multinomial(total, counts / total, size=_COUNTED_DRAWS)
    return _share_not_above(difference(drawn.astype(np.float64)))


def _share_not_above(drawn: Numbers) -> float:
    return float((1 + np.count_nonzero(~(drawn > 0))) / (1 + len(drawn)))


def _drawn(rows: int, figure: Callable[[NDArray[np.intp]], float], most: int = _DRAWS) -> Numbers:
    random = np.random.default_rng(_SEED)
    draws = min(most, max(_FEWEST_DRAWS, _MOST_CELLS // rows))
    return np.array([figure(random.integers(0, rows, rows)) for _ in range(draws)])


def _between(value: float, drawn: NDArray[Any]) -> Figure:
    known = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not len(known):
        return UNKNOWN
    low, high = np.percentile(known, [_TAIL, 100 - _TAIL])
    return Figure(float(value), float(low), float(high))
