"""Score units by their vectors: a line through the answers about some units, held to be flat (ridge regression)."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.quality.bins import Floats, Ints

_STRENGTHS: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
"""The penalties that are tried, as a share of the vectors' mean square; the one with the least error is taken."""
FEWEST: Final = 24
"""Fewer answers teach nothing."""
_ROWS_AT_ONCE: Final = 65_536


def vector_scores(vectors: NDArray[np.floating[Any]], taught: Ints, values: Floats) -> Floats:
    """Return a score in [0, 1] for each vector; NaN for all of them where the answers are too few or all equal.

    A taught unit gets the score that the other answers give it, so that its own answer does not flatter the line.
    """
    if len(taught) < FEWEST or np.ptp(values) == 0:
        return np.full(len(vectors), np.nan)
    known = vectors[taught].astype(np.float64)
    center, mean = known.mean(axis=0), values.mean()
    known -= center
    products = known @ known.T
    size = len(taught)
    level = max(float(np.trace(products)) / size, 1e-12)
    best: tuple[float, Floats, Floats] | None = None
    for strength in _STRENGTHS:
        inverse = np.linalg.inv(products + strength * level * np.eye(size))
        weights = inverse @ (values - mean)
        apart = values - weights / np.diag(inverse)  # the prediction of each value by the others
        error = float(((values - apart) ** 2).sum())
        if best is None or error < best[0]:
            best = error, weights, apart
    if best is None:
        return np.full(len(vectors), np.nan)
    line = known.T @ best[1]
    scores = np.empty(len(vectors))
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        scores[part] = (vectors[part].astype(np.float64) - center) @ line + mean
    scores[taught] = best[2]
    return np.clip(scores, 0.0, 1.0)
