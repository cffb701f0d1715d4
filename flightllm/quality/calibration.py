"""Estimate the share of yes answers in each rank of scores; estimates steer the asking, and prove nothing."""

import numpy as np

from flightllm.quality.bins import Floats

_STEPS = 40
_STILL = 1e-6
_LEVEL, _SLOPE = 3.0, 1.0  # how far the line is expected from the scores themselves, as standard deviations
_BEND = 0.1  # how much the slope is expected to change from one rank to the next
_OWN_UNITS = 200.0  # a rank that has so many answers counts as much as its neighbours
_EDGE = 2e-4
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)


def logits(scores: Floats) -> Floats:
    """Return the log odds of scores, within bounds that no model is worth going beyond."""
    clipped = np.clip(scores, 1e-5, 1 - 1e-5)
    return np.asarray(np.log(clipped / (1 - clipped)), np.float64)


def rates(hits: Floats, seen: Floats, scores: Floats) -> Floats:
    """Return the estimated share of hits of each rank, between 0 and 1, both excluded.

    The log odds of a hit are a line over the log odds of the score, plus a curve that bends little. The answers of each
    rank are blended in. The result is a mean over what the answers leave open.
    """
    ranks = len(hits)
    basis = np.column_stack([np.ones(ranks), logits(scores), np.eye(ranks)])
    bends = np.diff(np.eye(ranks), 2, axis=0)
    penalty = np.zeros((ranks + 2, ranks + 2))
    penalty[0, 0], penalty[1, 1] = _LEVEL**-2, _SLOPE**-2
    penalty[2:, 2:] = bends.T @ bends / _BEND**2 + np.eye(ranks) * 0.1
    expected = np.zeros(ranks + 2)
    expected[1] = 1.0
    state = expected.copy()

    def loss(at: Floats) -> float:
        odds = basis @ at
        away = at - expected
        return float(seen @ np.logaddexp(0, odds) - hits @ odds + away @ penalty @ away / 2)

    now = loss(state)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(basis @ state, -30, 30)))
        slope = basis.T @ (hits - seen * chance) - penalty @ (state - expected)
        curve = (basis * (seen * chance * (1 - chance))[:, None]).T @ basis + penalty
        step = np.linalg.solve(curve, slope)
        # A whole step can overshoot where the scores are far from the truth.
        while (then := loss(state + step)) > now and np.abs(step).max() > _STILL:
            step = step / 2
        state, gain, now = state + step, now - then, then
        if gain < _STILL:
            break
    spread = np.sqrt(np.einsum("ij,ji->i", basis, np.linalg.solve(curve, basis.T)))
    middle = basis @ state
    values = 1 / (1 + np.exp(-np.clip(middle[:, None] + spread[:, None] * _NODES, -30, 30)))
    smooth = values @ (_NODE_WEIGHTS / _NODE_WEIGHTS.sum())
    blend = (hits + _OWN_UNITS * smooth) / (seen + _OWN_UNITS)
    return np.asarray(np.clip(blend, _EDGE, 1 - _EDGE), np.float64)


def falls(hits: Floats, seen: Floats) -> bool:
    """Return True if yes answers are clearly rarer where scores are higher."""
    total = seen.sum()
    if not total:
        return False
    place = np.arange(len(hits))
    mean = (place * seen).sum() / total
    slope = ((place - mean) * hits).sum()
    share = hits.sum() / total
    spread = np.sqrt(((place - mean) ** 2 * seen).sum() * share * (1 - share))
    return bool(slope < -2 * spread)
