"""Figures of answers against labels: accuracy, precision, recall, F1, calibration, and the error of ratings.

A row without an answer counts as wrong. It lies outside of precision, and inside of recall.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.evaluation.agreement import kappa
from flightllm.evaluation.columns import NAMES
from flightllm.evaluation.resampling import Numbers, Whole, not_better, not_better_by_counts, of_counts, of_rows
from flightllm.evaluation.shares import UNKNOWN, Figure, f1_of_counts, share
from flightllm.evaluation.truth import Kind, Question

METRICS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "yes/no": ("accuracy", "f1"),
    "classes": ("accuracy", "f1"),
    "lists": ("jaccard", "accuracy"),
    "numbers": ("mae", "spearman"),
}
"""The figures by which variants of a question can be compared; the first one is the default."""
_BINS: Final = 10
"""The bins of the calibration error, each as wide as the others."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One variant's answers to some rows, in the order of the rows' labels."""

    given: Sequence[Any]
    """The values that `Question.value` returns; None where there is no answer."""
    confidence: Sequence[float | None] = ()
    """The model's probability of its own answer; empty if the model gives no probabilities."""

    def at(self, places: Sequence[int]) -> "Answers":
        """Return the answers to some of the rows."""
        confidence = [self.confidence[place] for place in places] if self.confidence else ()
        return Answers([self.given[place] for place in places], confidence)


def figures(question: Question, wanted: Sequence[Any], answers: Answers) -> dict[str, Figure]:
    """Return the figures of answers by name, in the order of `NAMES`."""
    match question.kind:
        case "yes/no":
            found = _of_yes_no(wanted, answers.given)
        case "classes":
            found = _of_classes(question, wanted, answers.given)
        case "lists":
            scores = row_scores(question, "jaccard", wanted, answers.given)
            found = {"jaccard": of_rows(len(scores), lambda places: float(scores[places].mean()))}
        case "numbers":
            return _of_numbers(question, wanted, answers.given)
    found["accuracy"] = share(_right(wanted, answers.given), len(wanted))
    if "ece" in NAMES[question.kind]:
        found["ece"] = _calibration_error(wanted, answers)
    return {name: found[name] for name in NAMES[question.kind]}


def row_scores(question: Question, metric: str, wanted: Sequence[Any], given: Sequence[Any]) -> Numbers:
    """Return a score for each row, which is higher for a better answer; its mean is the metric, or minus the metric.

    Only `accuracy`, `jaccard` and `mae` are means of rows.
    """
    pairs = zip(wanted, given, strict=True)
    match metric:
        case "jaccard":
            return np.array([0.0 if one is None else _jaccard(true, one) for true, one in pairs])
        case "mae":
            whole = question.high - question.low
            return np.array([-whole if one is None else -abs(true - one) for true, one in pairs])
        case _:
            return np.array([float(one is not None and true == one) for true, one in pairs])


def of_metric(question: Question, metric: str, wanted: Sequence[Any], given: Sequence[Any]) -> float:
    """Return a metric without its interval, with its sign changed where less is better."""
    if metric in {"accuracy", "jaccard", "mae"}:
        scores = row_scores(question, metric, wanted, given)
        return float(scores.mean()) if len(scores) else float("nan")
    if metric == "spearman":
        return _spearman(*_known_numbers(wanted, given))
    return float(_f1(question, confusion(question, wanted, given)[np.newaxis].astype(np.float64))[0])


def lower_f1(question: Question, wanted: Sequence[Any], first: Sequence[Any], second: Sequence[Any]) -> float:
    """Return the one-sided p-value of the second variant having a lower F1 than the first, by a paired bootstrap."""
    kinds = Counter(zip(wanted, first, second, strict=True))
    counts = np.array([*kinds.values()], np.int64)
    places = [(confusion(question, [true], [one]), confusion(question, [true], [two])) for true, one, two in kinds]
    tables = [np.array([one[side] for one in places], np.float64) for side in range(2)]

    def gap(drawn: Numbers) -> Numbers:
        ones, others = (_f1(question, np.tensordot(drawn, side, 1)) for side in tables)
        return ones - others

    return not_better_by_counts(counts, gap)


def confusion(question: Question, wanted: Sequence[Any], given: Sequence[Any]) -> Whole:
    """Return counts by label (rows) and answer (columns); the last column counts rows without an answer."""
    places = {value: place for place, value in enumerate(class_values(question))}
    table = np.zeros((len(places), len(places) + 1), np.int64)
    for true, one in zip(wanted, given, strict=True):
        table[places[true], len(places) if one is None else places[one]] += 1
    return table


def class_values(question: Question) -> tuple[Any, ...]:
    """Return the possible answers of a question with classes, or of a yes/no question."""
    return (True, False) if question.kind == "yes/no" else question.classes


def agreement(question: Question, first: Sequence[Any], second: Sequence[Any]) -> tuple[Figure, Figure]:
    """Return how much two variants agree on the rows that both answer, and Cohen's kappa where there are classes.

    The first figure is the share of equal answers, or for ratings Spearman's correlation.
    """
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    ones, others = [a for a, _ in both], [b for _, b in both]
    if question.kind == "numbers":
        return _spearman_figure(ones, others), UNKNOWN
    equal = share(_right(ones, others), len(both))
    return equal, UNKNOWN if question.kind == "lists" else kappa(confusion(question, ones, others)[:, :-1])


def _right(wanted: Sequence[Any], given: Sequence[Any]) -> int:
    return sum(one is not None and one == true for true, one in zip(wanted, given, strict=True))


def _of_yes_no(wanted: Sequence[bool], given: Sequence[bool | None]) -> dict[str, Figure]:
    both = sum(true and bool(one) for true, one in zip(wanted, given, strict=True))
    yes, true = sum(map(bool, given)), sum(wanted)
    return {
        "precision": share(both, yes),
        "recall": share(both, true),
        "f1": f1_of_counts(both, yes - both, true - both),
    }


def _of_classes(question: Question, wanted: Sequence[str], given: Sequence[str | None]) -> dict[str, Figure]:
    there = {*wanted, *given} - {None}
    own = replace(question, classes=tuple(one for one in question.classes if one in there))
    table = confusion(own, wanted, given)
    names = ("precision", "recall", "f1")
    return dict(zip(names, of_counts(table, _macro, len(names)), strict=True))


def _macro(tables: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the means over classes of precision, recall and F1, of each table.

    A class counts if it is a label or an answer. A share without rows is 0, as in scikit-learn.
    """
    right = np.diagonal(tables, axis1=1, axis2=2)
    true, given = tables.sum(axis=2), tables[:, :, :-1].sum(axis=1)
    there = (true + given) > 0
    number = np.maximum(there.sum(axis=1), 1)

    def mean(above: Numbers, below: Numbers) -> Numbers:
        found: Numbers = np.divide(above, below, out=np.zeros_like(above), where=below > 0).sum(axis=1) / number
        return found

    return mean(right, given), mean(right, true), mean(2 * right, true + given)


def _f1(question: Question, tables: Numbers) -> Numbers:
    """Return the F1 of yes, or the macro F1, of each table of counts."""
    if question.kind == "classes":
        return _macro(tables)[2]
    below = 2 * tables[:, 0, 0] + tables[:, 1, 0] + tables[:, 0, 1] + tables[:, 0, 2]
    found: Numbers = np.divide(2 * tables[:, 0, 0], below, out=np.full(len(tables), np.nan), where=below > 0)
    return found


def _calibration_error(wanted: Sequence[Any], answers: Answers) -> Figure:
    """Return the expected calibration error: the mean gap of confidence and accuracy in bins of confidence.

    Source: Guo et al., "On Calibration of Modern Neural Networks", 2017.
    """
    known = [
        place for place, one in enumerate(answers.confidence) if one is not None and answers.given[place] is not None
    ]
    right = np.array([float(answers.given[place] == wanted[place]) for place in known])
    sure = np.array([float(answers.confidence[place] or 0.0) for place in known])
    bins = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)

    def error(places: Any) -> float:
        gaps = np.bincount(bins[places], sure[places] - right[places], _BINS)
        return float(np.abs(gaps).sum() / len(places))

    return of_rows(len(known), error)


def _of_numbers(question: Question, wanted: Sequence[float], given: Sequence[float | None]) -> dict[str, Figure]:
    errors = -row_scores(question, "mae", wanted, given)
    return {
        "mae": of_rows(len(errors), lambda places: float(errors[places].mean())),
        "spearman": _spearman_figure(*_known_numbers(wanted, given)),
    }


def _known_numbers(wanted: Sequence[float], given: Sequence[float | None]) -> tuple[list[float], list[float]]:
    known = [(true, one) for true, one in zip(wanted, given, strict=True) if one is not None]
    return [true for true, _ in known], [one for _, one in known]


def lower_spearman(wanted: Sequence[float], first: Sequence[Any], second: Sequence[Any]) -> float:
    """Return the one-sided p-value of the second variant having a lower correlation than the first, by a bootstrap.

    Only rows that both variants answer count.
    """
    both = [place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a is not None and b is not None]
    true, one, other = (_Ranked([values[place] for place in both]) for values in (wanted, first, second))

    def gap(places: NDArray[np.intp]) -> float:
        ranks = true.at(places)
        return _correlation(ranks, one.at(places)) - _correlation(ranks, other.at(places))

    return not_better(len(both), gap)


def _spearman_figure(first: Sequence[float], second: Sequence[float]) -> Figure:
    ones, others = _Ranked(first), _Ranked(second)
    return of_rows(len(first), lambda places: _correlation(ones.at(places), others.at(places)))


def _spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation of ranks; NaN where one side has no two values."""
    places = np.arange(len(first))
    return _correlation(_Ranked(first).at(places), _Ranked(second).at(places))


class _Ranked:
    """Numbers, sorted once, so that the ranks of each draw of them take one pass."""

    def __init__(self, values: Sequence[float]) -> None:
        found, self._codes = np.unique(np.asarray(values, np.float64), return_inverse=True)
        self._count = len(found)

    def at(self, places: NDArray[np.intp]) -> Numbers:
        """Return the ranks of the numbers at some places among each other; equal ones share their mean rank."""
        codes = self._codes[places]
        counts = np.bincount(codes, minlength=self._count)
        means: Numbers = (np.cumsum(counts) - (counts - 1) / 2)[codes]
        return means


def _correlation(ones: Numbers, others: Numbers) -> float:
    if len(ones) < 2:
        return float("nan")
    ones, others = ones - ones.mean(), others - others.mean()
    below = float(np.sqrt((ones @ ones) * (others @ others)))
    return float(ones @ others) / below if below else float("nan")


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of labels that two sets have in common; two empty sets are equal."""
    return len(first & second) / len(first | second) if first | second else 1.0
