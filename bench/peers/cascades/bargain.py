"""BARGAIN: tests by betting, which hold for samples of every size (arXiv 2509.02896)."""

import math
from typing import Any

import numpy as np

_CUTS = 20
_STEP = 10
_BUDGET = 400
_FEWEST = 50


def certified(sample: Any, mean: float, size: int, alpha: float) -> bool:
    """Return True if a sample in random order shows that a mean over `size` rows is at least `mean`."""
    values = np.asarray(sample, float)
    count = len(values)
    before = np.arange(1, count + 1)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (0.5 + sums[1:]) / (before + 1)
    squares = np.concatenate([[0.25], (0.25 + np.cumsum((values - means) ** 2)) / (before + 1)])[:-1]
    left = np.maximum(size - before + 1, 1)
    expected = (size * mean - sums[:-1]) / left
    if np.any(expected <= 0):
        return True
    bets = np.minimum(
        np.sqrt(2 * math.log(2 / alpha) / (before * np.log(before + 1) * squares)), 0.75 / np.minimum(expected, 1.0)
    )
    wealth = np.cumsum(np.log(np.maximum(1 + bets * (values - expected), 1e-12)))
    return bool(np.any(wealth >= math.log(1 / alpha)))


def bargain(scores: Any, answers: Any, recall: float, precision: float, delta: float, rng: Any) -> tuple[Any, Any]:
    """Return the accepted and the asked rows: a test of recall and tests of precision, each with half of delta."""
    count = len(scores)
    order = np.lexsort((rng.random(count), scores))
    labels = answers[order]
    asked = np.zeros(count, bool)
    permutation = rng.permutation(count)
    first = permutation[: min(_BUDGET * 5, count // 4)]
    asked[first] = True
    low = 0
    ranks = np.array([rank for rank in first if labels[rank] == 1])
    for cut in np.sort(ranks):
        if not certified(ranks >= cut, recall, 10**9, delta / 2):
            break
        low = int(cut)
    high = count
    steps = np.unique(np.linspace(low, count, _CUTS + 1).astype(int))[:-1]
    for cut in steps[::-1]:
        inside = permutation[permutation >= cut]
        if not _shown(inside, labels, asked, precision, delta / 2):
            break
        high = int(cut)
    asked[low:high] = True
    accepted = np.zeros(count, bool)
    accepted[order] = np.where(asked, labels == 1, np.arange(count) >= high)
    result = np.zeros(count, bool)
    result[order] = asked
    return accepted, result


def _shown(inside: Any, labels: Any, asked: Any, target: float, delta: float) -> bool:
    """Ask rows of a region until its mean is certified, or until that is unlikely."""
    size = len(inside)
    for count in range(_STEP, min(_BUDGET, size) + _STEP, _STEP):
        sample = inside[:count]
        asked[sample] = True
        values = labels[sample] == 1
        if count >= size and values.mean() >= target:
            return True
        if certified(values, target, size, delta):
            return True
        if count >= _FEWEST and values.mean() < target:
            return False
    return False


def bargain_accuracy(scores: Any, answers: Any, accuracy: float, delta: float, rng: Any) -> tuple[Any, Any]:
    """Return the accepted and the asked rows: the surest rows, down to the last cut whose test succeeds."""
    count = len(scores)
    sure = np.maximum(scores, 1 - scores)
    order = np.lexsort((rng.random(count), -sure))
    right = ((scores >= 0.5) == (answers == 1))[order].astype(np.int8)
    asked = np.zeros(count, bool)
    permutation = rng.permutation(count)
    size = 0
    for step in range(1, _CUTS + 1):
        cut = count * step // _CUTS
        target = (accuracy * count - (count - cut)) / cut if cut else 0.0
        if target > 0 and not _shown(permutation[permutation < cut], right, asked, target, delta):
            break
        size = cut
    asked[size:] = True
    result = np.zeros(count, bool)
    result[order] = asked
    return np.where(result, answers == 1, scores >= 0.5), result
