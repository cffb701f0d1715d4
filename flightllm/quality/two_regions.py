"""Certify verdicts that split rows into two regions: those that are accepted, and those that are rejected.

The regions are fixed before any label. Rows of each region are drawn at random, and a confidence sequence bounds its
errors. A found error is corrected, so it counts no more. K is the least number of true
rows. Recall R holds if the unseen false rejects are at most K (1 - R) / R. Precision P holds if the unseen false
accepts are at most K (1 - P) / P.
"""

from dataclasses import dataclass, field
from math import sqrt

from flightllm.quality.count_bound import CountBound
from flightllm.quality.targets import Targets

_FIRST_WAVE = 32
_FEWEST_TO_FAIL = 2
_MOST_SHARE = 0.6
"""A region of which more must be drawn is better asked in full."""
_LARGER = 1.25
"""The ratio between the sizes of a sample that are tried."""


@dataclass
class Region:
    """Rows with one verdict: how many there are, how many were drawn, and how many of these are errors."""

    size: int
    bound: CountBound
    drawn: int = 0
    errors: int = 0

    def upper(self) -> int:
        """Return the most errors in the region, the found ones included."""
        return self.bound.upper(self.errors, self.drawn)

    @property
    def unseen(self) -> int:
        """Return the most errors that were not found."""
        return self.upper() - self.errors

    def later(self, drawn: int) -> "Region":
        """Return the region after more draws, if errors stay as rare as they can be by those found so far."""
        rate = max(0.0, self.errors - sqrt(self.errors)) / max(1, self.drawn)
        new = min(self.size, drawn)
        return Region(self.size, self.bound, new, self.errors + round(rate * (new - self.drawn)))


@dataclass
class TwoRegions:
    """Draw rows of both regions until the targets are certified, or will not be.

    `sure` are true rows outside of both regions. Without a precision, `accepted` must be 0: then each row that would be
    accepted has been asked. `most` is the number of draws that would cost more than they can save.
    """

    accepted_rows: int
    rejected_rows: int
    sure: int
    targets: Targets
    most: int
    accepted: Region = field(init=False)
    rejected: Region = field(init=False)
    reason: str = field(default="", init=False)
    """Why the targets will not be certified; empty if they can be."""

    def __post_init__(self) -> None:
        alpha = self.targets.delta if self.targets.precision is None else self.targets.delta / 2
        likely = self.sure + self.accepted_rows
        wrong = self._share(self.targets.precision) * likely
        missed = self._share(self.targets.recall) * likely
        self.accepted = Region(self.accepted_rows, CountBound(self.accepted_rows, alpha, wrong))
        self.rejected = Region(self.rejected_rows, CountBound(self.rejected_rows, alpha, missed))

    @staticmethod
    def _share(rate: float | None) -> float:
        return 0.0 if rate is None else (1 - rate) / rate

    def known(self, accepted: Region, rejected: Region) -> int:
        """Return the true rows that are there at least."""
        return self.sure + rejected.errors + accepted.size - accepted.upper()

    def held(self, accepted: Region | None = None, rejected: Region | None = None) -> bool:
        """Return whether the targets hold, with probability 1 - delta."""
        accepted, rejected = accepted or self.accepted, rejected or self.rejected
        known = self.known(accepted, rejected)
        recall = rejected.unseen <= self._share(self.targets.recall) * known
        return recall and accepted.unseen <= self._share(self.targets.precision) * known

    def wave(self) -> tuple[int, int]:
        """Return how many more rows of the accepted and of the rejected region to draw; (0, 0) at the end."""
        accepted, rejected = self.accepted, self.rejected
        if self.reason or self.held():
            return 0, 0
        if not accepted.drawn and not rejected.drawn:
            return min(_FIRST_WAVE, accepted.size), min(_FIRST_WAVE, rejected.size)
        wanted = self._cheapest()
        if wanted is None:
            self.reason = "the sampled pairs show too many errors for the targets"
            return 0, 0
        more = wanted[0] - accepted.drawn, wanted[1] - rejected.drawn
        if sum(wanted) > self.most:
            self.reason = "the proof would take about as many questions as it saves"
            return 0, 0
        return more

    def _cheapest(self) -> tuple[int, int] | None:
        """Return the smallest samples that are likely to prove the targets, or None."""
        best: tuple[int, int] | None = None
        for first in _sizes(self.accepted):
            accepted = self.accepted.later(first)
            for second in _sizes(self.rejected):
                if best is not None and first + second >= sum(best):
                    break
                if self.held(accepted, self.rejected.later(second)):
                    best = first, second
                    break
        return best

    def tell(self, accepted: tuple[int, int], rejected: tuple[int, int]) -> None:
        """Take the results of a wave: for each region the drawn rows, and the errors among them."""
        for region, (drawn, errors) in ((self.accepted, accepted), (self.rejected, rejected)):
            region.drawn += drawn
            region.errors += errors


def draws_needed(size: int, errors: float, sure: int, recall: float, alpha: float) -> int | None:
    """Return how many draws are likely to prove a recall of rejected rows with about `errors` true ones; None if none.

    `sure` rows are known to be true, and `size` rows are rejected.
    """
    regions = TwoRegions(0, size, sure, Targets(recall, confidence=1 - alpha), size)
    for drawn in _sizes(regions.rejected):
        found = round(errors * drawn / max(1, size))
        if regions.held(rejected=Region(size, regions.rejected.bound, drawn, found)):
            return drawn
    return None


def _sizes(region: Region) -> list[int]:
    """Return sizes of a sample to try, the smallest first."""
    most = max(int(_MOST_SHARE * region.size), region.drawn, min(region.size, _FIRST_WAVE))
    found, size = [region.drawn], float(max(region.drawn, _FIRST_WAVE))
    while region.drawn < most and size < most:
        size = max(size * _LARGER, size + 4)
        found.append(min(round(size), most))
    return found
