"""Answer questions with several classes by a cheap model's labels where they suffice, and by the oracle elsewhere."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.quality import calibration, plan
from flightllm.quality.bins import Floats, Ints
from flightllm.quality.certificate import Certificate
from flightllm.quality.report import LabelReport
from flightllm.quality.targets import Targets
from flightllm.quality.waves import LEAST_SAVING, UNASKED, Flags, Waves, check_arrays


@dataclass
class _Process:
    """A certificate with the bins it watches. An error there is another label than `own`, or the label `other`."""

    certificate: Certificate
    inside: Flags
    own: int | None = None
    other: int | None = None


class LabelCascade(Waves[np.int64]):
    """Ask waves of units until the targets are certified; then the other units keep the cheap model's label.

    Arguments, all with one entry for each unit: `labels`, the cheap model's label from 0, or -1 where it failed;
    `confidence`, how sure the model is; `weights`, the rows of the unit; `known`, the oracle's label where it is known
    before, else -1. `classes` is the number of labels.

    `targets.accuracy` is over all rows; `targets.recall` and `targets.precision` hold for each class together.
    A NULL of the oracle counts as an error where the cheap model gave a label.

    Raises:
        ValueError: the arrays differ in length, or a weight is below 1.
    """

    PILOT = 0.03
    SHARES_OF_PLAN = (0.3, 0.5, 0.7, 1.0)

    def __init__(
        self,
        labels: Ints,
        confidence: Floats,
        weights: Ints,
        known: Ints,
        classes: int,
        targets: Targets,
        seed: int,
    ) -> None:
        labels = np.asarray(labels, np.int64)
        confidence = np.asarray(confidence, np.float64)
        weights = np.asarray(weights, np.int64)
        known = np.asarray(known, np.int64)
        check_arrays(weights, labels, confidence, known)
        self._each = targets.recall is not None or targets.precision is not None
        scored = (labels >= 0) & ~np.isnan(confidence)
        super().__init__(confidence, weights, known, scored, targets, seed, labels if self._each else None)
        self._classes = classes
        self._labels = labels
        self._of_class = np.zeros(classes)
        self._add(known, weights)
        # One column for each class, one for NULL: how often the oracle gave it in each bin.
        self._hits = np.zeros((self._bins.number, classes + 1))
        self._wrong = np.zeros(self._bins.number)
        self._processes: list[_Process] = []
        self._accuracy: _Process | None = None
        self._false: list[_Process] = []
        self._missed: list[_Process] = []

    # --- what the engine calls

    def verdicts(self) -> Ints:
        """Return the label of each unit: the oracle's where it was asked, else the cheap model's; -1 is NULL."""
        return np.where(self._answers == UNASKED, self._labels, self._answers)

    def predicted(self) -> float:
        """Return the predicted share of units that are asked in the end."""
        total = self._asked + self._left()
        if not total:
            return 0.0
        left = self._bins.left.astype(float)
        if self._stage == "done" or not left.sum():
            return (self._asked + len(self._failed) * (self._stage == "pilot")) / total
        if self._stage == "pilot":
            if self._stops_at_once():
                return 1.0
            if self._each:
                if not self._processes:
                    self._start()
                rate, _ = self._rates(1.0)
                asked = float((left * rate).sum())
                return min((asked + self._pilot_size() + len(self._failed)) / total, 1.0)
            errors = np.clip(1 - self._bins.key_mean, 0.005, 0.995)
            tail = plan.Tail(left, self._bins.weight_most, errors, np.zeros(len(left)))
            budget = (1 - (self._targets.accuracy or 0.0)) * self._rows
            asked = plan.best(tail, math.log(1 / self._targets.delta), budget).asked
            return min((asked + self._pilot_size() + len(self._failed)) / total, 1.0)
        rate, _ = self._rates(1.0)
        return min((self._asked + float((left * rate).sum())) / total, 1.0)

    def report(self) -> LabelReport:
        """Return the counts and the certified bounds so far."""
        unseen, recalls, precisions = self._certified()
        asked = (self._bin_of >= 0) & (self._answers != UNASKED)
        found = self._weights[asked & (self._answers != self._labels)].sum()
        return LabelReport(
            rows=self._rows,
            units=len(self._labels),
            known_rows=self._known_rows,
            asked_units=self._asked,
            asked_rows=self._asked_rows,
            sampled_units=self._sampled,
            found_errors=int(found),
            unseen_errors=unseen,
            accuracy=1 - unseen / self._rows if self._rows else 1.0,
            recalls=tuple(recalls),
            precisions=tuple(precisions),
            delta=self._targets.delta,
            held=bool(self._held()),
            useless=self._useless,
            reason=self._reason,
        )

    # --- the asking

    def _add(self, answers: Ints, weights: Ints) -> None:
        given = (answers >= 0) & (answers < self._classes)
        self._of_class += np.bincount(answers[given], weights=weights[given], minlength=self._classes)

    def _learn(self, units: Ints, answers: Ints, where: Ints) -> None:
        wrong = answers != self._labels[units]
        self._wrong += np.bincount(where, weights=wrong, minlength=self._bins.number)
        np.add.at(self._hits, (where, np.where(answers < 0, self._classes, answers)), 1)

    def _errors_of(self, units: Ints, answers: Ints, where: Ints) -> list[Flags]:
        wrong = answers != self._labels[units]
        return [p.inside[where] & (wrong if p.other is None else answers == p.other) for p in self._processes]

    def _watched(self) -> list[Flags]:
        return [process.inside for process in self._processes]

    # --- what is certified

    def _bound(self, process: _Process | None, inside: NDArray[np.bool_]) -> int:
        rows = np.where(inside, self._bins.rows_left, 0)
        return int(rows.sum()) if process is None else process.certificate.bound(rows)

    def _certified(self) -> tuple[int, list[float], list[float]]:
        """Return the most unseen errors, and the least recall and precision of each class."""
        everywhere = np.ones(self._bins.number, bool)
        # Without a label and an answer, a row can be an error of each kind.
        unscored = self._unscored
        unseen = self._bound(self._accuracy, everywhere) + unscored
        recalls: list[float] = []
        precisions: list[float] = []
        if not self._each:
            return unseen, recalls, precisions
        rows = self._bins.rows_left
        for label in range(self._classes):
            own = self._bins.group == label
            false = self._bound(self._false[label] if self._false else None, own)
            missed = self._bound(self._missed[label] if self._missed else None, ~own) + unscored
            accepted = float(self._of_class[label]) + float(rows[own].sum())
            true = accepted - false
            precisions.append(true / accepted if accepted else 1.0)
            recalls.append(true / (true + missed) if true + missed else 1.0)
        return unseen, recalls, precisions

    def _held(self) -> bool:
        if self._unscored:
            return False
        unseen, recalls, precisions = self._certified()
        targets = self._targets
        held = True
        if targets.accuracy is not None:
            held &= unseen <= (1 - targets.accuracy) * self._rows + 1e-9
        if targets.recall is not None:
            held &= min(recalls, default=1.0) >= targets.recall - 1e-12
        if targets.precision is not None:
            held &= min(precisions, default=1.0) >= targets.precision - 1e-12
        return held

    # --- the plan

    def _start(self) -> None:
        """Start one certificate for each promise; they share delta."""
        targets = self._targets
        number = self._bins.number
        promises: list[tuple[str, int | None]] = []
        if targets.accuracy is not None:
            promises.append(("accuracy", None))
        if self._each:
            promises += [("false", label) for label in range(self._classes)]
        if targets.recall is not None:
            promises += [("missed", label) for label in range(self._classes)]
        for kind, label in promises:
            certificate = Certificate(number, targets.delta / len(promises))
            own = np.ones(number, bool) if label is None else self._bins.group == label
            if kind == "missed":
                process = _Process(certificate, ~own, other=label)
                self._missed.append(process)
            else:
                process = _Process(certificate, own, own=label)
                if kind == "false":
                    self._false.append(process)
                else:
                    self._accuracy = process
            self._processes.append(process)
            self._certificates.append(certificate)

    def _by_rank(self, hits: Floats) -> Floats:
        """Estimate the share of `hits` in each bin, over the ranks of each group."""
        steps = self._bins.classes
        hits, seen = hits.reshape(-1, steps).sum(1), self._seen.reshape(-1, steps).sum(1)
        group = self._bins.group.reshape(-1, steps)[:, 0]
        size = self._bins.sizes.reshape(-1, steps)
        key = (self._bins.key_mean.reshape(-1, steps) * size).sum(1) / np.maximum(size.sum(1), 1)
        scores = 1 - key
        result = np.empty(len(hits))
        for which in np.unique(group):
            part = group == which
            result[part] = calibration.rates(hits[part], seen[part], scores[part])
        return np.repeat(result, steps)

    def _errors(self, process: _Process) -> Floats:
        """Estimate the share of errors in each bin; before the first answer, only by the confidences."""
        if not self._seen.any():
            wrong = np.clip(1 - self._bins.key_mean, 0.005, 0.995)
            return wrong if process.other is None else wrong / max(self._classes - 1, 1)
        hits: Floats = self._wrong if process.other is None else self._hits[:, process.other]
        return self._by_rank(hits)

    def _budget(self, process: _Process) -> float:
        """Return the rows of unseen errors that a process can leave, about."""
        targets = self._targets
        label = process.own if process.other is None else process.other
        if label is None:
            return (1 - (targets.accuracy or 0.0)) * self._rows
        own = self._bins.group == label
        accepted = float(self._of_class[label]) + float(self._bins.rows_left[own].sum())
        recall = targets.recall or 0.0
        least = targets.precision if targets.precision is not None else (1 + recall) / 2
        if process.other is None:
            return (1 - least) * accepted
        return (1 - recall) / recall * least * accepted

    def _rates(self, caution: float) -> tuple[Floats, list[Floats]]:
        """Return the rate of each bin, and the final potentials of each process."""
        bins = self._bins
        left = bins.left.astype(float)
        rate = np.zeros(bins.number)
        goals = []
        for process in self._processes:
            errors = self._errors(process)
            inside = process.inside
            tail = plan.Tail(left, bins.weight_most, errors, process.certificate.potential)
            found = plan.best(tail.part(inside), process.certificate.room, self._budget(process) * caution)
            rate[inside] = np.maximum(rate[inside], found.rate)
            goal = process.certificate.potential.copy()
            goal[inside] = found.goal
            goals.append(goal)
        return rate, goals

    def _planned(self, left: Floats, total: int) -> tuple[Floats, list[Floats]] | None:
        rate, goals = self._cautious(self._rates, left, total)
        if self._asked + float((left * rate).sum()) >= (1 - LEAST_SAVING) * total:
            return None
        return rate, goals
