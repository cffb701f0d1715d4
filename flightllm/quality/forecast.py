"""Predict how many units of other rows an oracle will be asked about, from one run over some rows."""

from dataclasses import astuple
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.quality.bins import Floats
from flightllm.quality.calibration import rates
from flightllm.quality.filter_cascade import FilterCascade
from flightllm.quality.label_cascade import LabelCascade
from flightllm.quality.likely_first import Effort, effort
from flightllm.quality.targets import Targets
from flightllm.quality.waves import Answer, Waves

_RANKS: Final = 64
_MOST_SCORES: Final = 4_000
_MOST_UNITS: Final = 20_000
"""A trial has so many units at most; more units need about the same share."""
_MOST_KEPT: Final = 32
_TRIALS: Final = 3
_FEW_UNITS: Final = 5_000
"""Trials of this many units or fewer differ much, so a forecast makes several."""
_SEED: Final = 7


class Seen:
    """The spread of a proxy's scores in one run, and how often each score was right. Thread-safe.

    It keeps a few thousand numbers, whatever the number of units was.
    """

    def __init__(
        self, scores: Floats, hits: NDArray[np.int8], shares: Floats, taught: int, *, limited: bool = False
    ) -> None:
        """Take the score of each unit, and whether the oracle's answer was a hit: 1, 0, or -1 where it is not known.

        For a filter, `scores` are the probabilities of yes, a hit is a yes, and `shares` is empty. For labels, `scores`
        are the probabilities of the proxy's label, and a hit is that label. `shares` are then the shares of the labels
        in the proxy's answers. The oracle was asked about `taught` units to train or choose the proxy.
        A `limited` run ended at a LIMIT, and asked about the likeliest units first.
        """
        there = np.flatnonzero(~np.isnan(scores))
        self.scored: tuple[float, ...] = ()
        """Of filters with one promise: the share of each filter's prompts that its proxy got."""
        self.limited = limited
        self._missing = 1 - len(there) / max(1, len(scores))
        self._taught = taught
        self._labels = shares
        self._kept: dict[tuple[int, Targets], float] = {}
        self._efforts: dict[tuple[int, int, float], Effort] = {}
        order = there[np.argsort(scores[there], kind="stable")]
        ranks = np.array_split(order, min(_RANKS, max(1, len(order))))
        known = [hits[rank][hits[rank] >= 0] for rank in ranks]
        found = rates(
            np.array([float(one.sum()) for one in known]),
            np.array([float(len(one)) for one in known]),
            np.array([float(scores[rank].mean()) if len(rank) else 0.5 for rank in ranks]),
        )
        picked = np.linspace(0, len(order) - 1, min(len(order), _MOST_SCORES)).astype(np.int64)
        self._scores = scores[order[picked]] if len(order) else np.empty(0)
        self._rates = found[np.minimum(picked * len(ranks) // max(1, len(order)), len(ranks) - 1)]

    def first(self, units: int, rows: int, price: float) -> Effort | None:
        """Return what it takes to find the first `rows` of `units` other units, by trials on drawn answers.

        `price` is that of a score, where a question costs 1. Return None for a run without scores.
        """
        if units <= 0 or not len(self._scores):
            return None
        effort_of = self._efforts.get((units, rows, price))
        if effort_of is None:
            rng, tried = np.random.default_rng(_SEED), min(units, _MOST_UNITS)
            found = []
            for _ in range(_TRIALS):
                drawn = rng.integers(0, len(self._scores), tried)
                truth = rng.random(len(drawn)) < self._rates[drawn]
                found.append(effort(self._scores[drawn], truth, rows, price))
            asked, scored, got = (fmean(column) for column in zip(*map(astuple, found), strict=True))
            effort_of = Effort(asked, scored, got)
            if len(self._efforts) >= _MOST_KEPT:
                self._efforts.clear()
            self._efforts[units, rows, price] = effort_of
        return effort_of

    def share(self, units: int, targets: Targets) -> float:
        """Return the share of `units` other units that the oracle is asked about, by a trial on drawn answers."""
        if units <= 0 or not len(self._scores):
            return 1.0
        tried = min(units, _MOST_UNITS)
        if tried > 100:
            tried = int(float(f"{tried:.2g}"))
        place = tried, targets
        if (share := self._kept.get(place)) is None:  # two threads at once find the same share
            trials = [self._trial(tried, targets, _SEED + n) for n in range(_TRIALS if tried <= _FEW_UNITS else 1)]
            share = float(np.median(trials))
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[place] = share
        return min(1.0, share + self._taught / units)

    def _trial(self, units: int, targets: Targets, seed: int) -> float:
        random = np.random.default_rng(seed)
        at = ((np.arange(units) + random.random(units)) / units * len(self._scores)).astype(np.int64)
        hits = random.random(units) < self._rates[at]
        scores = self._scores[at].copy()
        scores[random.random(units) < self._missing] = np.nan
        weights, unknown = np.ones(units, np.int64), np.full(units, -1)
        if not len(self._labels):
            filters = FilterCascade(scores, weights, unknown.astype(np.int8), targets, seed)
            return _asked(filters, hits.astype(np.int8)) / units
        labels = random.choice(len(self._labels), units, p=self._labels / self._labels.sum())
        right = np.where(hits, labels, (labels + 1) % max(2, len(self._labels))).astype(np.int64)
        return _asked(LabelCascade(labels, scores, weights, unknown, len(self._labels), targets, seed), right) / units


def _asked(cascade: Waves[Answer], answers: NDArray[Answer]) -> int:
    asked = 0
    while len(wave := cascade.next_wave()):
        cascade.tell(wave, answers[wave])
        asked += len(wave)
    return asked
