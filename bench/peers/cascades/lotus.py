"""The cascade of LOTUS 1.2: importance sampling, and bounds from the central limit theorem (arXiv 2407.11418)."""

import math
from typing import Any

import numpy as np

_SAMPLED = 0.1  # the share of rows that is sampled
_FIRST_ROWS = 200  # only these can be sampled
_WEIGHT = 0.5  # of the scores among the chances to be sampled; the rest is uniform
_BUCKETS = 50


def spread(values: Any, count: int, delta: float) -> float:
    """Return half of the width of an asymptotic bound on a mean."""
    return float(np.std(values)) / math.sqrt(max(count, 1)) * math.sqrt(2 * math.log(1 / delta))


def lowest_cut(scores: Any, yes: Any, recall: float) -> float:
    """Return the highest cut that keeps `recall` of the weighted yes answers; `scores` fall."""
    kept = np.cumsum(yes)
    if not kept[-1]:
        return float(scores[-1])
    return float(scores[int(np.argmax(kept >= recall * kept[-1] - 1e-12))])


def cuts(scores: Any, labels: Any, factors: Any, recall: float, precision: float, delta: float) -> tuple[float, float]:
    """Return the lower and the upper cut that the sample gives."""
    order = np.argsort(-scores, kind="stable")
    scores, labels, factors = scores[order], labels[order], factors[order]
    low = lowest_cut(scores, labels * factors, recall)
    above = np.where(scores >= low, labels * factors, 0.0)
    below = np.where(scores < low, labels * factors, 0.0)
    count = len(scores)
    most = above.mean() + spread(above, count, delta / 2)
    least = below.mean() + spread(below, count, delta / 2)
    low = lowest_cut(scores, labels * factors, min(most / (most + least), 1.0) if most + least else 1.0)
    high = math.inf
    for place in range(count):
        chosen = labels[: place + 1]
        if chosen.mean() - spread(chosen, place + 1, delta / count) > precision:
            high = float(scores[place])
    return low, max(low, high)


def lotus(scores: Any, answers: Any, recall: float, precision: float, delta: float, rng: Any) -> tuple[Any, Any]:
    """Return the accepted and the asked rows."""
    count = len(scores)
    ranks = np.empty(count)
    ranks[np.argsort(scores, kind="stable")] = np.arange(count)
    calibrated = np.floor(ranks * _BUCKETS / count) / (_BUCKETS - 1)
    chances = np.sqrt(calibrated)
    chances = _WEIGHT * chances / chances.sum() + (1 - _WEIGHT) / count
    first = min(_FIRST_ROWS, count)
    sampled = rng.choice(first, max(int(_SAMPLED * count), 1), p=chances[:first] / chances[:first].sum())
    low, high = cuts(
        calibrated[sampled], answers[sampled].astype(float), 1 / count / chances[sampled], recall, precision, delta
    )
    asked = (calibrated >= low) & (calibrated < high)
    asked[sampled] = True
    return np.where(asked, answers == 1, calibrated >= high), asked
