"""How often two ways to answer a row agree: a lower bound from sampled rows."""

from dataclasses import dataclass
from math import comb
from typing import Final

MISTAKE: Final = 0.05
"""The probability with which a bound can be wrong."""
LOOKS: Final = (48, 128)
"""The sampled rows after which the bound is looked at."""
_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of `compared` sampled rows, `agreed` have equal answers."""

    compared: int
    agreed: int

    @property
    def least(self) -> float:
        """Return the share that certainly agrees, between 0 and 1: the exact bound of Clopper and Pearson (1934).

        It holds at all of `LOOKS` together with probability 1 - `MISTAKE`.
        """
        return least_share(self.agreed, self.compared, MISTAKE / len(LOOKS))


def least_share(agreed: int, compared: int, mistake: float) -> float:
    """Return the least share under which so many agree with probability `mistake` or more."""
    low, high = 0.0, agreed / compared if compared else 0.0
    for _ in range(_STEPS if agreed else 0):
        middle = (low + high) / 2
        if _tail(agreed, compared, middle) < mistake:
            low = middle
        else:
            high = middle
    return low


def can_reach(target: float, agreement: Agreement, most: int) -> bool:
    """Return whether the bound can reach a target once `most` rows are compared, if all further rows agree."""
    further = max(0, most - agreement.compared)
    return Agreement(agreement.compared + further, agreement.agreed + further).least >= target


def _tail(least: int, count: int, share: float) -> float:
    """Return the probability of `least` or more successes."""
    return sum(comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(least, count + 1))
