"""Peel both tails: fixed candidate regions, and confidence sequences for counts without replacement.

The sequences are those of Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", 2020.
"""

import math
from typing import Any

import numpy as np

_REGIONS = 12
_LEAST, _MOST = 0.1, 0.96
_PILOT = 200
_HOPE, _MOST_SAMPLED = 0.75, 0.45


def _beta_binomial(hits: float, size: float, a: float, b: float) -> float:
    """Return the logarithm of the chance of `hits` among `size`."""

    def choose(n: float, k: float) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    def beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    return choose(size, hits) + beta(hits + a, size - hits + b) - beta(a, b)


def upper(hits: int, seen: int, size: int, alpha: float, b: float) -> int:
    """Return the most errors among `size` rows after `hits` errors in `seen` of them."""
    low, high = hits, size - seen + hits
    if low == high:
        return high

    def inside(count: int) -> bool:
        after = _beta_binomial(count - hits, size - seen, 1 + hits, b + seen - hits)
        return _beta_binomial(count, size, 1, b) - after < math.log(1 / alpha)

    # The ratio is least near the observed rate, and grows beyond it.
    low = min(high, max(low, round(hits / max(seen, 1) * size)))
    if inside(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low


class _Tail:
    """One tail: candidate regions from the largest to an empty one, and how many of its rows are sampled.

    `place` lists the ranks in the order of the permutation; `below` says which end of the ranks the tail has.
    """

    def __init__(self, labels: Any, place: Any, *, below: bool, budget: float) -> None:
        self.labels, self.place, self.below, self.budget = labels, place, below, budget
        self.sizes = [int(share * len(labels)) for share in np.linspace(_MOST, _LEAST, _REGIONS)] + [0]
        self.at = self.taken = 0

    @property
    def rows(self) -> Any:
        """The ranks of the region, in the order in which they are sampled."""
        size = self.sizes[self.at]
        return self.place[self.place < size if self.below else self.place >= len(self.labels) - size]

    def wrong(self, rows: Any) -> int:
        """Return the errors among `rows`."""
        return int((self.labels[rows] == (1 if self.below else 0)).sum())

    def promising(self, seen: Any, size: int) -> bool:
        """Return True if the errors of a region are expected to leave room."""
        return bool(len(seen)) and (self.wrong(seen) + 0.5) / (len(seen) + 1) * size <= _HOPE * self.budget

    def shrink(self, asked: Any) -> None:
        """Take the next smaller region; its rows that were sampled remain so."""
        self.at += 1
        self.taken = int(asked[self.rows].sum()) if self.sizes[self.at] else 0

    def begin(self, asked: Any) -> None:
        """Take the largest region that is promising."""
        while self.sizes[self.at] and not self.promising(self.rows[asked[self.rows]], len(self.rows)):
            self.at += 1
        self.taken = int(asked[self.rows].sum())

    def unseen(self, alpha: float) -> int:
        """Return the most errors that were not found."""
        rows = self.rows
        if not len(rows):
            return 0
        hits = self.wrong(rows[: self.taken])
        return upper(hits, self.taken, len(rows), alpha, max(len(rows) / max(self.budget, 1), 1.0)) - hits

    def go_on(self) -> None:
        """Sample a quarter more, or take a smaller region."""
        rows = self.rows
        if self.promising(rows[: self.taken], len(rows)) and self.taken < _MOST_SAMPLED * len(rows):
            self.taken = min(len(rows), self.taken + max(self.taken // 4, 10))
            return
        before = rows[: self.taken]
        self.at += 1
        self.taken = int(np.isin(self.rows, before).sum())


def peel(scores: Any, answers: Any, recall: float, precision: float, delta: float, rng: Any) -> tuple[Any, Any]:
    """Return the accepted and the asked rows."""
    count = len(scores)
    order = np.lexsort((rng.random(count), scores))
    labels = answers[order]
    place = rng.permutation(count)
    asked = np.zeros(count, bool)
    asked[place[:_PILOT]] = True
    yes = max(float(labels[place[:_PILOT]].mean()), 1 / _PILOT) * count
    low = _Tail(labels, place, below=True, budget=(1 - recall) / recall * yes)
    high = _Tail(labels, place, below=False, budget=(1 - precision) / precision * yes)
    for tail in (low, high):
        tail.begin(asked)
    while low.sizes[low.at] + high.sizes[high.at] > count:
        max(low, high, key=lambda tail: tail.sizes[tail.at]).shrink(asked)
    while True:
        edge = count - high.sizes[high.at]
        asked[low.sizes[low.at] : edge] = True
        for tail in (low, high):
            asked[tail.rows[: tail.taken]] = True
        missed, false = (tail.unseen(delta / (2 * _REGIONS)) for tail in (low, high))
        accepted = len(high.rows) - high.wrong(high.rows[: high.taken])
        sure = int(labels[:edge][asked[:edge]].sum()) + accepted - false
        fails = missed > (1 - recall) / recall * sure, false > (1 - precision) / precision * sure
        if not any(fails):
            break
        (high if fails[1] and (not fails[0] or false > missed) else low).go_on()
    chosen, result = np.zeros(count, bool), np.zeros(count, bool)
    result[order] = asked
    chosen[order] = np.where(asked, labels == 1, np.arange(count) >= edge)
    return chosen, result
