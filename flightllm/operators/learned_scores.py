"""Learn from some labelled vectors which label the others have, and how probable it is.

The model is a logistic regression. Labels are asked in rounds, because the vectors that a first model is unsure about
teach more than others. All of these labels are known answers afterwards, so they prove nothing about the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.learning.regression import lines, one_thread, regression
from flightllm.operators.oracle import UNASKED
from flightllm.operators.population import Units

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

_STRENGTHS: Final = (0.1, 1.0, 10.0, 100.0)
"""The inverse penalties that are tried; the best one on vectors that were held out is taken."""
_FOLDS: Final = 3
_MOST_STEPS: Final = 300
_FEWEST_OF_LABEL: Final = 2
_FIRST_SHARE: Final = 0.02
_FEWEST_FIRST, _MOST_FIRST = 50, 150
_GROWTH: Final = 1.6
_MOST_SHARE: Final = 0.2
"""The most labels for training, as a share of all units."""
_RANDOM: Final = 0.3
"""The share of a round that is drawn from all units, not from those that the model is unsure about."""
_WIDE: Final = 3
"""The unsure units of a round are drawn from so many times as many."""
_ROWS_AT_ONCE: Final = 16_384
_LEAST_GAIN: Final = 0.98
"""A round must lower the expected number of questions to this share, or it is the last."""


class Table(Protocol):
    """The vectors of all units; a row of NaN is a unit without a vector."""

    def __len__(self) -> int:
        """Return the number of units."""

    def read(self, units: Units) -> Vectors:
        """Return the vectors of some units."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A fitted logistic regression; `labels` are the labels that it knows, in the order of the weights."""

    labels: NDArray[np.int64]
    weights: Floats
    offsets: Floats

    def probabilities(self, vectors: Vectors, count: int) -> Floats:
        """Return the probability of each of `count` labels for each vector; NaN for a vector with NaN."""
        logits = vectors.astype(np.float64) @ self.weights.T + self.offsets
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        found = np.zeros((len(vectors), count))
        found[:, self.labels] = raised / raised.sum(axis=1, keepdims=True)
        return found


def fit(vectors: Vectors, labels: Units, strength: float | None = None) -> Classifier | None:
    """Fit a logistic regression; return None if fewer than two labels are there at least twice.

    `strength` is the inverse penalty; by default the one that suits vectors best that were held out.

    Raises:
        MissingExtraError: the extra `learn` is not installed.
    """
    there = np.isfinite(vectors).all(axis=1)
    vectors, labels = vectors[there], labels[there]
    usable = _usable(labels)
    if usable is None:
        return None
    vectors, labels = vectors[usable], labels[usable]
    fitted = _regression(vectors, labels, strength or _strength(vectors, labels))
    return Classifier(np.asarray(fitted.classes_, np.int64), *lines(fitted))


def held_out(vectors: Vectors, labels: Units, count: int) -> Floats | None:
    """Return the probability of each label for each vector, by a model that is fitted to other vectors.

    Return None if fewer than two labels are there at least twice.
    """
    usable = _usable(labels)
    if usable is None:
        return None
    found = np.full((len(vectors), count), 1 / count)
    for inside, outside in _folds(labels):
        model = fit(vectors[inside], labels[inside])
        if model is not None:
            found[outside] = model.probabilities(vectors[outside], count)
    return found


@dataclass(frozen=True, slots=True)
class Learned:
    """The outcome of learning: for each unit the likely label and its probability, and how many units were asked."""

    labels: NDArray[np.int64]
    confidence: Floats
    asked: int
    reason: str = ""
    """Why there is no model; empty if there is one."""


class Teacher(Protocol):
    """Knows some labels of units, and can find others."""

    count: int
    """The number of different labels."""
    most: int
    """The most units that can be asked."""

    def known(self) -> NDArray[np.int64]:
        """Return the label of each unit of the table, `UNASKED`, or another negative number for no answer."""

    def ask(self, units: Units) -> None:
        """Ask for the labels of units."""

    def predict(self, labels: NDArray[np.int64], confidence: Floats) -> float:
        """Return the share of units that must be asked in the end, given likely labels and their probabilities."""


def learn(table: Table, units: Units, teacher: Teacher, seed: int) -> Learned:
    """Ask for labels of some `units`, until more labels are likely to cost more than they save; score all units.

    Raises:
        MissingExtraError: the extra `learn` is not installed.
    """
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(units)
    total, best = 0, np.inf
    round_ = int(np.clip(_FIRST_SHARE * len(units), _FEWEST_FIRST, _MOST_FIRST))
    most = min(teacher.most, int(_MOST_SHARE * len(units)))
    found: Learned | None = None
    knows_enough = int((teacher.known() >= 0).sum()) >= round_
    while True:
        labels = teacher.known()
        left = order[labels[order] == UNASKED]
        if not knows_enough:
            chosen = _chosen(left, found, units, min(round_, most - total), rng)
            teacher.ask(chosen)
            total += len(chosen)
        knows_enough = False
        labels = teacher.known()
        taught = np.flatnonzero(labels >= 0)
        model = fit(table.read(taught), labels[taught])
        if model is not None:
            found = scored(table, units, model, teacher.count, total)
            open_ = labels[units] == UNASKED
            ahead = teacher.predict(found.labels[open_], found.confidence[open_]) * int(open_.sum())
            if total + ahead > _LEAST_GAIN * best or total * _GROWTH > ahead:
                return found
            best = total + ahead
        if total >= most or not len(left):
            return _without_model(labels, units, total) if found is None else found
        round_ = max(int(total * (_GROWTH - 1)), _FEWEST_FIRST // 2)


def _without_model(given: Units, units: Units, total: int) -> Learned:
    """Give all units the only label that was found, at the same probability."""
    taught = given[given >= 0]
    counts = np.bincount(taught) if len(taught) else np.zeros(1, np.int64)
    label = int(counts.argmax())
    share = (counts[label] + 0.5) / (counts.sum() + 1)
    second = int(np.sort(counts)[-2]) if len(counts) > 1 else 0
    reason = f"Of {len(taught)} answers, {second} differ from the most frequent one, and learning needs two."
    return Learned(np.full(len(units), label), np.full(len(units), share), total, reason)


def _chosen(left: Units, found: Learned | None, units: Units, size: int, rng: np.random.Generator) -> Units:
    """Return the units to ask next: some of all, the others among those with the least sure labels."""
    if size <= 0 or not len(left):
        return left[:0]
    if found is None:
        return left[:size]
    by_chance = left[: int(np.ceil(_RANDOM * size))]
    rest = left[len(by_chance) :]
    place = np.empty(int(units.max()) + 1, np.int64)
    place[units] = np.arange(len(units))
    sure = found.confidence[place[rest]]
    unsure = rest[np.argsort(np.where(np.isnan(sure), np.inf, sure), kind="stable")]
    wide = unsure[: _WIDE * (size - len(by_chance))]
    return np.concatenate([by_chance, rng.permutation(wide)[: size - len(by_chance)]])


def scored(table: Table, units: Units, model: Classifier, count: int, total: int) -> Learned:
    """Return the likely labels of units by a model, a part of them at a time."""
    labels, confidence = np.empty(len(units), np.int64), np.empty(len(units))
    for start in range(0, len(units), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        found = model.probabilities(table.read(units[part]), count)
        labels[part] = found.argmax(axis=1)
        confidence[part] = found.max(axis=1)
    labels[np.isnan(confidence)] = -1
    return Learned(labels, confidence, total)


def _usable(labels: Units) -> NDArray[np.bool_] | None:
    """Return which labels are there often enough; None if there are not two of them."""
    if not len(labels):
        return None
    frequent = np.bincount(labels) >= _FEWEST_OF_LABEL
    return frequent[labels] if frequent.sum() >= 2 else None


def _strength(vectors: Vectors, labels: Units) -> float:
    """Return the inverse penalty with the least loss on vectors that were held out."""
    losses = np.zeros(len(_STRENGTHS))
    for inside, outside in _folds(labels):
        if len(np.unique(labels[inside])) < 2:
            continue
        for place, strength in enumerate(_STRENGTHS):
            fitted = _regression(vectors[inside], labels[inside], strength)
            found = np.asarray(fitted.predict_proba(vectors[outside]))
            column = np.searchsorted(fitted.classes_, labels[outside])
            there = np.isin(labels[outside], fitted.classes_)
            right = found[np.arange(len(outside)), np.minimum(column, found.shape[1] - 1)]
            losses[place] -= np.log(np.maximum(np.where(there, right, 1e-3), 1e-6)).sum()
    return _STRENGTHS[int(losses.argmin())]


def _folds(labels: Units) -> Iterator[tuple[Units, Units]]:
    """Yield the places inside and outside of each fold; each label is in the folds about equally often."""
    fold = np.empty(len(labels), np.int64)
    fold[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % _FOLDS
    for number in range(_FOLDS):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _regression(vectors: Vectors, labels: Units, strength: float) -> Any:
    with one_thread("a proxy that learns from vectors"):
        return regression(vectors, labels, strength, most_steps=_MOST_STEPS, tolerance=1e-3)
