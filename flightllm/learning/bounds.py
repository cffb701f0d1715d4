"""Bounds on a share that hold with a stated probability, for labels that are independent draws from a population."""

import math

from flightllm.evaluation.shares import beta_quantile, incomplete_beta


def lower_bound(successes: int, tries: int, alpha: float) -> float:
    """Return a bound that is above the true share with probability at most `alpha`; 0 without tries.

    Source: Clopper and Pearson, "The Use of Confidence or Fiducial Limits", Biometrika 26, 1934.
    """
    return beta_quantile(alpha, successes, tries - successes + 1) if successes else 0.0


def alpha_of_look(alpha: float, look: int) -> float:
    """Return the probability of an error that one look can have, so that those of all looks sum to `alpha` at most.

    People label more rows until a bound suits them, so each look costs a part of `alpha`. Looks count from 1.

    Example: with `alpha` 0.05, the first three looks have 0.025, 0.0083 and 0.0042.
    """
    return alpha / (look * (look + 1))


def mean_bound(total: float, tries: int, most: float, alpha: float) -> float:
    """Return a bound that is below the true mean of values from 0 to `most` with probability at most `alpha`.

    Source: Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", 1963.
    """
    if not tries:
        return most
    return min(total / tries + most * math.sqrt(math.log(1 / alpha) / (2 * tries)), most)


def tries_needed(share: float, target: float, alpha: float) -> int | None:
    """Return about how many tries certify `target` if the true share is `share`; None if it is not above the target."""
    if share <= target:
        return None
    tries = 8
    while tries < 1 << 20:
        good = math.floor(share * tries)
        if good and incomplete_beta(good, tries - good + 1, target) <= alpha:  # then the lower bound is no less
            return tries
        tries += max(1, tries // 8)
    return None
