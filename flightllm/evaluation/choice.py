"""The choice among variants: the cheapest one that is not significantly worse than the best one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from flightllm.evaluation.figures import lower_f1, lower_spearman, of_metric, row_scores
from flightllm.evaluation.resampling import not_better
from flightllm.evaluation.shares import CONFIDENCE, most_share, one_sided
from flightllm.evaluation.truth import Question

ALPHA: Final = 0.05
MARGIN: Final = 0.05
"""The difference that enough labels show: of a share, or of a rating as a part of its scale."""
_POWER: Final = 0.8
"""The probability with which enough labels show such a difference."""
_MEANS = ("accuracy", "jaccard", "mae")


@dataclass(frozen=True, slots=True)
class Choice:
    """The conclusion from the answers of several variants to the same labelled rows."""

    best: int
    chosen: int
    worse: tuple[float, ...]
    """For each variant, the p-value of being worse than the best one, corrected for all pairs of variants."""
    needed: int
    """The labels that show a difference of `MARGIN`, with a power of 80 %."""


def choose(
    question: Question, metric: str, wanted: Sequence[Any], given: Sequence[Sequence[Any]], prices: Sequence[float]
) -> Choice:
    """Choose among variants by their answers to the same rows, and their prices.

    A difference is significant if its corrected p-value is below `ALPHA`. The same rows name the best variant, so each
    pair of variants could be compared, in either direction: Bonferroni's correction counts all of these comparisons.
    Of equal prices, the better variant wins.
    """
    quality = [of_metric(question, metric, wanted, one) for one in given]
    order = sorted(range(len(given)), key=lambda place: (-_known(quality[place]), prices[place], place))
    best = order[0]
    others = [place for place in range(len(given)) if place != best]
    tests = len(given) * len(others)
    found = [1.0] * len(given)
    for place in others:
        found[place] = min(1.0, tests * worse(question, metric, wanted, given[best], given[place]))
    kept = [place for place in order if found[place] >= ALPHA]
    chosen = min(kept, key=lambda place: (prices[place], order.index(place)))
    needed = [_needed(question, metric, wanted, given[best], given[place], tests) for place in others]
    return Choice(best, chosen, tuple(found), max(needed, default=labels_for_margin(quality[best])))


def frontier(quality: Sequence[float], prices: Sequence[float]) -> list[bool]:
    """Return for each variant whether each other one is dearer or worse, or equal to it in both."""

    def beats(other: int, place: int) -> bool:
        at_least = quality[other] >= quality[place] and prices[other] <= prices[place]
        return at_least and (quality[other], prices[other]) != (quality[place], prices[place])

    places = range(len(quality))
    return [not any(beats(other, place) for other in places) for place in places]


def worse(question: Question, metric: str, wanted: Sequence[Any], best: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the one-sided p-value of the second variant being worse than the first.

    For accuracy this is McNemar's exact test. Other metrics take a paired bootstrap.
    """
    if metric == "accuracy":
        gaps = _gaps(question, metric, wanted, best, other)
        return one_sided(int((gaps < 0).sum()), int((gaps > 0).sum()))
    if metric in _MEANS:
        gaps = _gaps(question, metric, wanted, best, other)
        return not_better(len(gaps), lambda places: float(gaps[places].mean()))
    if metric == "spearman":
        return lower_spearman(wanted, best, other)
    return lower_f1(question, wanted, best, other)


def labels_for_margin(quality: float) -> int:
    """Return the labels that give a share an interval of `MARGIN` to both sides."""
    spread = quality * (1 - quality) if 0 < quality < 1 else MARGIN * (1 - MARGIN)
    return math.ceil(spread * (_normal((1 + CONFIDENCE) / 2) / MARGIN) ** 2)


def _needed(
    question: Question, metric: str, wanted: Sequence[Any], best: Sequence[Any], other: Sequence[Any], tests: int
) -> int:
    """Return the labels with which one of several tests shows a difference of `MARGIN`.

    The spread of the differences comes from the rows. Where rows are only right or wrong, it is the most that the rows
    do not refute, so that a few equal answers prove nothing.
    """
    if metric in {"accuracy", "f1"}:
        gaps = _gaps(question, "accuracy", wanted, best, other)
        spread, margin = most_share(int((gaps != 0).sum()), len(gaps)), MARGIN
    else:
        by = "mae" if question.kind == "numbers" else metric
        gaps = _gaps(question, by, wanted, best, other)
        margin = MARGIN * (question.high - question.low)
        spread = max(float(gaps.var()) if len(gaps) else 0.0, margin**2)
    return math.ceil(spread * ((_normal(1 - ALPHA / tests) + _normal(_POWER)) / margin) ** 2)


def _gaps(question: Question, metric: str, wanted: Sequence[Any], first: Sequence[Any], second: Sequence[Any]) -> Any:
    return row_scores(question, metric, wanted, first) - row_scores(question, metric, wanted, second)


def _known(quality: float) -> float:
    return -math.inf if np.isnan(quality) else quality


def _normal(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
