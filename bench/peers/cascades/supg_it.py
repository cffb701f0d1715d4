"""SUPG-IT: rounds of sampling for each batch of rows, until no row is between the cuts (arXiv 2604.00660).

The options are those of the authors' experiments, among them the bound of the corrected recall.
"""

import math
from typing import Any

import numpy as np

from bench.peers.cascades.lotus import spread

_BATCH, _ROUND, _BUDGET = 4096, 128, 0.1
_WEIGHT = 0.5
_MOST_ABOVE = 0.05


def supg_it(scores: Any, answers: Any, recall: float, precision: float, delta: float, rng: Any) -> tuple[Any, Any]:
    """Return the accepted and the asked rows."""
    accepted, asked = np.zeros(len(scores), bool), np.zeros(len(scores), bool)
    sample: list[Any] = []
    low, high = -math.inf, math.inf
    for start in range(0, len(scores), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(scores)))
        budget = max(1, int(_BUDGET * len(rows)))
        while budget > 0:
            open_rows = rows[~asked[rows]]
            between = (scores[open_rows] > low) & (scores[open_rows] < high)
            if sample and not between.any():
                break
            drawn, factors = _draw(open_rows, scores, min(_ROUND, budget), rng)
            budget -= len(drawn)
            asked[drawn] = True
            sample.append(np.array([scores[drawn], answers[drawn], factors]))
            low, high = _cuts(np.concatenate(sample, axis=1), recall, precision, delta)
        asked[rows] |= (scores[rows] > low) & (scores[rows] < high)
        accepted[rows] = scores[rows] >= high
    return np.where(asked, answers == 1, accepted), asked


def _draw(rows: Any, scores: Any, size: int, rng: Any) -> tuple[Any, Any]:
    roots = np.sqrt(scores[rows])
    chances = _WEIGHT * roots / max(roots.sum(), 1e-12) + (1 - _WEIGHT) / len(rows)
    chances /= chances.sum()
    at = rng.choice(len(rows), min(size, len(rows)), p=chances, replace=False)
    return rows[at], 1 / len(rows) / chances[at]


def _cuts(sample: Any, recall: float, precision: float, delta: float) -> tuple[float, float]:
    """Return the cut below which rows are rejected, and the one from which they are accepted."""
    scores, labels, factors = sample[:, np.argsort(-sample[0], kind="stable")]
    yes = labels * factors
    count = len(scores)
    low = _lower(scores, yes, recall)
    above, below = np.where(scores >= low, yes, 0.0), np.where(scores < low, yes, 0.0)
    most, least = above.mean() + spread(above, count, delta / 2), below.mean() - spread(below, count, delta / 2)
    wanted = min(1.0, most / (most + least)) if most + least else 1.0
    low = _lower(scores, yes, float(np.clip(wanted, recall, recall + _MOST_ABOVE)))
    last = np.append(scores[1:] != scores[:-1], True)  # the last row of each score
    sizes, hits = np.arange(1, count + 1)[last], np.cumsum(labels)[last]
    means = hits / sizes
    bounds = means - np.sqrt(means * (1 - means) / sizes * 2 * math.log(count / delta))
    good = np.flatnonzero(bounds > precision)
    high = min(1.0, float(scores[last][good[-1]])) if len(good) else 1.0
    if high >= low:
        return low, high
    # Both cuts become the one where the rates have the ratio of their targets.
    recalls = hits / max(labels.sum(), 1)
    middle = float(scores[last][np.argmin(np.abs(recalls / (means + 1e-10) - recall / precision))])
    return middle, middle


def _lower(scores: Any, yes: Any, recall: float) -> float:
    """Return the score below the one that reaches `recall` of the weighted yes answers; `scores` fall."""
    last = np.append(scores[1:] != scores[:-1], True)
    kept, values = np.cumsum(yes)[last], scores[last]
    reached = np.flatnonzero(kept >= recall * kept[-1] - 1e-12) if kept[-1] else np.empty(0, np.int64)
    return float(values[reached[0] + 1]) if len(reached) and reached[0] + 1 < len(values) else 0.0
