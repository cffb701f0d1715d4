"""Predict answers from the scores of a proxy, and say how far the predictions usually err."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from flightllm.quality.bins import Floats, Ints

_CLIP: Final = 1e-4
_RIDGE: Final = 1.0
"""How strongly a fit is held to the scores themselves; so many answers weigh as much."""
_NEWTON: Final = 25
_PRIOR: Final = 2.0
"""The mean starts as if so many answers had been half."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The likely value of each unit, in [0, 1], and the usual error of this prediction."""

    expected: Floats
    spread: Floats


def predict(scores: Floats, taught: Ints, values: Floats, *, yes_or_no: bool) -> Predicted:
    """Predict the values of all units from the answers about some of them.

    `scores` lie in [0, 1]; a unit without a score has NaN, and gets the mean. `values` are those of the units `taught`.
    Values are 0 or 1 with `yes_or_no`, otherwise any in [0, 1].
    """
    mean = (values.sum() + _PRIOR / 2) / (len(values) + _PRIOR)
    spread = np.sqrt(mean * (1 - mean)) if yes_or_no else _deviation(values - mean)
    expected, errors = np.full(len(scores), mean), np.full(len(scores), spread)
    there = np.isfinite(scores)
    if there.any():
        own = there[taught]
        fit = _logistic if yes_or_no else _linear
        expected[there], errors[there] = fit(scores[there], scores[taught[own]], values[own])
    return Predicted(expected, errors)


def _deviation(errors: Floats) -> float:
    """Return the usual size of errors, which starts as if some had been as great as errors of values in [0, 1] can."""
    return float(np.sqrt(((errors**2).sum() + _PRIOR * 0.08) / (len(errors) + _PRIOR)))


def _logistic(scores: Floats, known: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities of yes by a logistic line over the scores' logits, and their deviations."""
    x, every = _logit(known), _logit(scores)
    design = np.column_stack([np.ones(len(x)), x])
    start = np.array([0.0, 1.0])
    line = start.copy()
    loss = _loss(design, values, line, start)
    for _ in range(_NEWTON):
        p = _sigmoid(design @ line)
        gradient = design.T @ (p - values) + _RIDGE * (line - start)
        curve = (design * (p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(curve, gradient)
        # Far from the best line, a whole step can go too far.
        tried = (line - share * step for share in 0.5 ** np.arange(12))
        found = ((_loss(design, values, one, start), one) for one in tried)
        better = next((one for one in found if one[0] < loss), None)
        if better is None or loss - better[0] < 1e-7:
            break
        loss, line = better
    p = _sigmoid(line[0] + line[1] * every)
    return p, np.sqrt(p * (1 - p))


def _loss(design: Floats, values: Floats, line: Floats, start: Floats) -> float:
    logits = design @ line
    return float((np.logaddexp(0, logits) - values * logits).sum() + _RIDGE * ((line - start) ** 2).sum() / 2)


def _linear(scores: Floats, known: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the values by a line over the scores, and the deviation from it."""
    design = np.column_stack([np.ones(len(known)), known])
    start = np.array([0.0, 1.0])
    line = start + np.linalg.solve(design.T @ design + _RIDGE * np.eye(2), design.T @ (values - design @ start))
    spread = _deviation(values - np.clip(design @ line, 0.0, 1.0))
    return np.clip(line[0] + line[1] * scores, 0.0, 1.0), np.full(len(scores), spread)


def _logit(scores: Floats) -> Floats:
    clipped = np.clip(scores, _CLIP, 1 - _CLIP)
    return np.asarray(np.log(clipped / (1 - clipped)), np.float64)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -40, 40))), np.float64)
