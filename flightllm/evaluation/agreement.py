"""The agreement of two variants: the share of equal answers, and Cohen's kappa with its interval.

Source: Fleiss, Cohen and Everitt, "Large Sample Standard Errors of Kappa and Weighted Kappa", 1969.
"""

import math
from statistics import NormalDist

import numpy as np

from flightllm.evaluation.resampling import Whole
from flightllm.evaluation.shares import CONFIDENCE, UNKNOWN, Figure


def kappa(table: Whole) -> Figure:
    """Return Cohen's kappa of a square table of counts; unknown without answers, or if all are equal."""
    total = int(table.sum())
    if not total:
        return UNKNOWN
    shares = table / total
    of_first, of_second = shares.sum(axis=1), shares.sum(axis=0)
    equal, by_chance = float(np.trace(shares)), float(of_first @ of_second)
    if by_chance >= 1:
        return UNKNOWN
    value = (equal - by_chance) / (1 - by_chance)
    rest = 1 - value
    diagonal = np.diagonal(shares)
    on = float(diagonal @ (1 - (of_first + of_second) * rest) ** 2)
    both = (of_second[:, np.newaxis] + of_first[np.newaxis, :]) ** 2
    off = rest**2 * float((shares * both).sum() - diagonal @ np.diagonal(both))
    variance = (on + off - (value - by_chance * rest) ** 2) / ((1 - by_chance) ** 2 * total)
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(max(0.0, variance))
    return Figure(value, max(-1.0, value - reach), min(1.0, value + reach))
