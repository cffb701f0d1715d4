"""Fit logistic regressions to about half of the labels, and certify the result on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.learning.bounds import alpha_of_look, lower_bound, mean_bound, tries_needed
from flightllm.learning.learned import Answer, Feature, Floats, Kind, Learned, Rows
from flightllm.learning.regression import lines, one_thread, regression

_STRENGTHS: Final = (0.001, 0.01, 0.1, 1.0, 10.0)
"""The strengths of the fit to choose from: 1 / λ of the squared weights."""
_FOLDS: Final = 5
_FEWEST: Final = 10
"""The fewest labels of a fit."""
_FEWEST_EACH: Final = 2
"""The fewest labels of each answer in the half that trains."""
FITTED: Final = "a filter that is learned from labels"
"""The filters that need the extra `learn`, as errors name them."""
TARGETS: Final = ("precision", "recall", "accuracy")


@dataclass(frozen=True, slots=True)
class Labels:
    """Labelled rows: their features, their labels as texts, and texts that tell the rows apart."""

    rows: Rows
    labels: Sequence[str]
    values: Sequence[str]
    model: Sequence[str | None]
    """The model's own answers, for rows without features."""

    def at(self, places: NDArray[np.int64]) -> Labels:
        """Return some of the rows."""
        picked = ([given[at] for at in places] for given in (self.labels, self.values, self.model))
        return Labels(self.rows.at(places), *picked)

    @property
    def digest(self) -> str:
        """Return the version of the labels: a hash of all values and labels, in any order."""
        lines = sorted(f"{value}\x1f{label}" for value, label in zip(self.values, self.labels, strict=True))
        return blake2b("\x1e".join(lines).encode(errors="replace"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The targets of a fit: each is a share, and all hold together with this confidence, whatever the looks before."""

    targets: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.95
    look: int = 1
    """How often labels judged a fit to this question, this time included."""

    @property
    def alpha(self) -> float:
        """Return the probability of an error at this look."""
        return alpha_of_look(1 - self.confidence, self.look)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit, and figures about it from labels that did not train it."""

    learned: Learned
    figures: Mapping[str, float | int]
    missed: str = ""
    """Which target is not certified, and what would help; empty if all are."""
    notes: Sequence[str] = ()
    """Warnings about the labels and the fit, such as labels that contradict each other."""


def fitted(
    labels: Labels,
    kind: Kind,
    features: Sequence[Feature],
    options: Sequence[str],
    wanted: Wanted,
    look: Callable[[], int] = lambda: 1,
) -> Fitted:
    """Train on about half of the labels, and certify on the others.

    `look` counts the looks at this question, and returns the number of this one. It is called before labels judge.

    Of rows with equal values, one counts; see `one_of_each`. A hash of the values puts a row into a half, so that the
    halves do not depend on the labels. For independent draws from a population, the second half then tells about this
    population. The strength and the cut are chosen by cross-validation within the first half.

    Raises:
        InvalidInputError: there are too few labels, or a label is not an answer.
        MissingExtraError: scikit-learn is not installed.
    """
    notes = list(contradictions(labels))
    labels = one_of_each(labels)
    usable, judging = _parts(labels)
    training = len(labels.labels) - len(judging)
    if len(usable) < training:
        notes.append(
            f"{training - len(usable)} of the {training} labels that train are not used, because the model gave no"
            " probabilities for their rows, or the rows have no vector"
        )
    given = labels.at(usable)
    with one_thread(FITTED):
        if kind == "score":
            learned = _score(given, tuple(features), tuple(options))
        else:
            learned = _classes(given, kind, tuple(features), tuple(options), wanted)
    learned = Learned.of_json(learned.as_json())  # judge the weights as they are kept
    judge = _judged_scores if kind == "score" else _judged_filter if kind == "filter" else _judged_labels
    wanted = replace(wanted, look=look())
    judged_by = labels.at(judging)
    answers = learned.decided(judged_by.rows, judged_by.model)
    figures, missed = judge(learned, answers, judged_by.labels, wanted)
    counts = {"labels": len(labels.labels), "trained_on": len(usable), "judged_on": len(judging)}
    figures = {**counts, **figures, "confidence": wanted.confidence, "looks": wanted.look}
    notes += constant(kind, answers, figures)
    return Fitted(learned, figures, missed, notes)


def check_labels(labels: Sequence[str], values: Sequence[str], kind: Kind) -> None:
    """Check that a fit can take these labels of values, as far as this does not depend on the features.

    Raises:
        InvalidInputError: there are too few labels, or too few of one answer.
    """
    empty = np.zeros((len(labels), 0))
    given = one_of_each(Labels(Rows(empty, empty), labels, values, [None] * len(labels)))
    usable, _ = _parts(given)
    if kind != "score":
        _counts(given.at(usable).labels, kind)


def _parts(labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the rows that train and have features, and of those that judge.

    Raises:
        InvalidInputError: there are too few.
    """
    training, judging = halves(labels)
    usable = training[labels.rows.known[training]]
    if len(labels.labels) < _FEWEST or not len(usable) or not len(judging):
        raise InvalidInputError(
            f"{len(labels.labels)} labels are too few: give at least {_FEWEST}, of which about half train, and the"
            " others judge"
        )
    return usable, judging


def _counts(labels: Sequence[str], kind: Kind) -> Mapping[str, int]:
    """Return how many of the labels that train each class has.

    Raises:
        InvalidInputError: a class has too few.
    """
    classes = sorted(set(labels)) if kind == "label" else ["No", "Yes"]
    given = Counter(labels)
    counts = {one: given[one] for one in classes}
    if len(classes) < 2 or min(counts.values()) < _FEWEST_EACH:
        rare = min(counts, key=counts.__getitem__)
        raise InvalidInputError(
            f"{counts[rare]} of the {len(labels)} labels that train are {rare!r}: label more rows, at least"
            f" {2 * _FEWEST_EACH} or so of each answer"
        )
    return counts


def contradictions(labels: Labels) -> Iterator[str]:
    """Yield a sentence about the values that have different labels, if there are any."""
    given: dict[str, set[str]] = {}
    for value, label in zip(labels.values, labels.labels, strict=True):
        given.setdefault(value, set()).add(label)
    if count := sum(len(found) > 1 for found in given.values()):
        yield (
            f"{count} of {len(given)} different values have labels that contradict each other; a hash drew one label of"
            " each"
        )


def constant(kind: Kind, answers: Sequence[Answer], figures: Mapping[str, float | int]) -> Iterator[str]:
    """Yield a sentence about a fit that gives all rows that judge the same answer, and its figures, if it does."""
    if len(answers) < _FEWEST_EACH or len(set(answers)) > 1 or answers[0] is None:
        return
    shown = ("Yes" if answers[0] else "No") if kind == "filter" else answers[0]
    told = ", ".join(f"{name} {figures[name]:g}" for name in (*TARGETS, "mean_error") if name in figures)
    yield (
        f"the filter answers {shown} to all {len(answers)} rows that judge, so it tells nothing apart: {told}. Label"
        " more rows, or ask another question"
    )


def one_of_each(labels: Labels) -> Labels:
    """Return one row for each value, in the order of the values; rows with different labels draw by a hash.

    A value that a join repeats would otherwise train and judge at once. The values and labels
    decide the draw, so the order of the rows changes nothing.
    """
    places: dict[str, list[int]] = {}
    for place in sorted(range(len(labels.values)), key=lambda at: (labels.values[at], labels.labels[at])):
        places.setdefault(labels.values[place], []).append(place)
    drawn = [found[int.from_bytes(draw(value)[:8]) % len(found)] for value, found in places.items()]
    return labels.at(np.array(drawn, dtype=np.int64))


def halves(labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the rows that train, about half of them, and of those that judge.

    A row stays in its half when further rows come.
    """
    parts: tuple[list[int], list[int]] = ([], [])
    for place, value in enumerate(labels.values):
        parts[0 if trains(draw(value)) else 1].append(place)
    return np.array(parts[0], dtype=np.int64), np.array(parts[1], dtype=np.int64)


def text_of(values: Sequence[str | None]) -> str:
    """Return a text that tells the values of a row apart from others."""
    return "\x1f".join("\x00" if one is None else one for one in values)


def draw(value: str) -> bytes:
    """Return the random draw of a row: a hash of its text. Its first bytes choose a label, and its last bit a half."""
    # Rows of earlier fits stay in their halves only with this prefix.
    return blake2b(f"1 {value}".encode(errors="replace"), digest_size=16).digest()


def trains(drawn: bytes) -> bool:
    """Return whether a row with this draw trains; otherwise it judges."""
    return not drawn[-1] & 1


def _classes(
    given: Labels, kind: Kind, features: tuple[Feature, ...], options: tuple[str, ...], wanted: Wanted
) -> Learned:
    rows, labels = given.rows, list(given.labels)
    counts = _counts(labels, kind)
    classes = list(counts)
    inputs = rows.inputs(kind)
    center = inputs.mean(axis=0)
    scale = _scale(inputs - center, rows.vectors.shape[1])
    scaled = (inputs - center) / scale
    places = np.array([classes.index(one) for one in labels])
    folds = min(_FOLDS, *counts.values())
    strength, scores = _chosen(scaled, places, folds)
    weights, intercepts = lines(_regression(scaled, places, strength))
    if kind == "filter":  # the log odds of Yes
        weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
    learned = Learned(
        kind,
        features,
        options,
        tuple(classes) if kind == "label" else (),
        weights,
        intercepts,
        center,
        scale,
    )
    return replace(learned, cut=_cut(scores[:, 0], places == 1, wanted)) if kind == "filter" else learned


def _scale(inputs: Floats, width: int) -> Floats:
    """Return one factor for all entries of vectors, and one for each other input, so that their sizes compare."""
    vectors = float(np.sqrt((inputs[:, :width] ** 2).mean())) if width else 1.0
    others = inputs[:, width:].std(axis=0)
    return np.asarray(np.maximum(np.concatenate([np.full(width, vectors), others]), 1e-6))


def _regression(inputs: Floats, places: NDArray[np.int64], strength: float) -> Any:
    return regression(inputs, places, strength, most_steps=1_000, tolerance=1e-4, balanced=True)


def _chosen(inputs: Floats, places: NDArray[np.int64], folds: int) -> tuple[float, Floats]:
    """Return the strength with the least cross-validated loss, and the scores of each row by fits without it."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    weights = 1.0 / np.bincount(places)[places]
    best: tuple[float, float, Floats] | None = None
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(inputs, places))
    for strength in _STRENGTHS:
        scores: Floats | None = None
        chances = np.zeros((len(places), places.max() + 1))
        for train, test in splits:
            model = _regression(inputs[train], places[train], strength)
            made = model.decision_function(inputs[test])
            made = made[:, None] if made.ndim == 1 else made
            scores = np.zeros((len(places), made.shape[1])) if scores is None else scores
            scores[test], chances[test] = made, model.predict_proba(inputs[test])
        loss = float(log_loss(places, chances, sample_weight=weights))
        if scores is not None and (best is None or loss < best[0]):
            best = (loss, strength, scores)
    if best is None:
        raise InvalidInputError("no fit could be made")
    return best[1], best[2]


def _cut(scores: Floats, truth: NDArray[np.bool_], wanted: Wanted) -> float:
    """Return the cut with the best F1, or with the largest distance to the targets, by cross-validated scores."""
    order = np.sort(np.unique(scores))
    cuts = np.concatenate([[order[0] - 1.0], (order[:-1] + order[1:]) / 2])
    best = (-np.inf, 0.0)
    for cut in cuts:
        kept = scores > cut
        true = int((kept & truth).sum())
        shares = {
            "precision": (true + 0.5) / (int(kept.sum()) + 1),
            "recall": (true + 0.5) / (int(truth.sum()) + 1),
            "accuracy": (int((kept == truth).sum()) + 0.5) / (len(truth) + 1),
        }
        room = [shares[name] - target for name, target in wanted.targets.items()]
        worth = min(room) if room else 2 * true / (int(kept.sum()) + int(truth.sum()))
        best = max(best, (worth, float(cut)))
    return best[1]


def _judged_filter(
    _: Learned, answers: Sequence[Answer], labels: Sequence[str], wanted: Wanted
) -> tuple[dict[str, float | int], str]:
    truth = np.array([label == "Yes" for label in labels], dtype=bool)
    kept = np.array([one is True for one in answers], dtype=bool)
    right = np.array([one is not None for one in answers], dtype=bool) & (kept == truth)
    true = int((kept & truth).sum())
    counts = {
        "precision": (true, int(kept.sum())),
        "recall": (true, int(truth.sum())),
        "accuracy": (int(right.sum()), len(truth)),
    }
    figures, missed = _certified(counts, wanted)
    return {"f1": round(2 * true / max(1, int(kept.sum()) + int(truth.sum())), 4), **figures}, missed


def _judged_labels(
    _: Learned, answers: Sequence[Answer], labels: Sequence[str], wanted: Wanted
) -> tuple[dict[str, float | int], str]:
    right = sum(one == label for one, label in zip(answers, labels, strict=True))
    return _certified({"accuracy": (right, len(answers))}, wanted)


def _certified(counts: Mapping[str, tuple[int, int]], wanted: Wanted) -> tuple[dict[str, float | int], str]:
    """Return shares and their certified bounds, which hold together; without targets, all shares get a bound."""
    bounded = list(wanted.targets) or list(counts)
    alpha = wanted.alpha / len(bounded)
    following = replace(wanted, look=wanted.look + 1).alpha / len(bounded)
    figures: dict[str, float | int] = {}
    missed: list[str] = []
    for name, (good, tries) in counts.items():
        share = good / tries if tries else 0.0
        figures[name] = round(share, 4)
        if name not in bounded:
            continue
        bound = lower_bound(good, tries, alpha)
        figures[f"{name}_at_least"] = np.floor(bound * 10_000) / 10_000
        target = wanted.targets.get(name)
        if target is not None and bound < target:
            missed.append(_advice(name, share, bound, target, tries, tries_needed(share, target, following)))
    if missed and wanted.look > 1:
        missed.append(f"this is look {wanted.look} at this question, and each further look needs more labels")
    return figures, "; ".join(missed)


def _advice(name: str, share: float, bound: float, target: float, tries: int, needed: int | None) -> str:
    told = f"{name} {target:g} is not certified: it is {share:.3f} on {tries} rows that judge, at least {bound:.3f}"
    return told if needed is None else f"{told}, and some {needed} such rows would be enough at this rate"


def _score(given: Labels, features: tuple[Feature, ...], options: tuple[str, ...]) -> Learned:
    from sklearn.isotonic import IsotonicRegression

    numbers = tuple(map(float, options))
    inputs = given.rows.inputs("score", numbers)[:, -1]
    model = IsotonicRegression(out_of_bounds="clip").fit(inputs, [float(one) for one in given.labels])
    knots = np.stack([model.X_thresholds_, model.y_thresholds_], axis=1)
    width = given.rows.vectors.shape[1] + 1
    return Learned(
        "score",
        features,
        options,
        (),
        np.zeros((1, width)),
        np.zeros(1),
        np.zeros(width),
        np.ones(width),
        knots=knots,
    )


def _judged_scores(
    learned: Learned, answers: Sequence[Answer], labels: Sequence[str], wanted: Wanted
) -> tuple[dict[str, float | int], str]:
    most = max(learned.numbers) - min(learned.numbers)
    missing = [
        most if one is None else min(abs(float(one) - float(label)), most)
        for one, label in zip(answers, labels, strict=True)
    ]
    bound = mean_bound(sum(missing), len(missing), most, wanted.alpha)
    figures = {"mean_error": round(sum(missing) / max(1, len(missing)), 4), "mean_error_at_most": round(bound, 4)}
    return figures, ""
