"""Answer questions with several classes by a cheap model's labels where they suffice, and by the oracle elsewhere."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.quality import calibration, plan
from flightllm.quality.bins import Bins, Floats, Ints, generator
from flightllm.quality.certificate import Certificate
from flightllm.quality.report import LabelReport
from flightllm.quality.targets import Targets

_FEWEST_UNITS = 60
_PILOT = 0.03
_SHARES_OF_PLAN = (0.3, 0.5, 0.7, 1.0)
_LEAST_SAVING = 0.02
_SMALLEST_WAVE, _SMALLEST_SHARE = 8, 0.002
_MOST_WAVES = 40
_UNASKED = -2
_TOO_FEW, _ALL_KNOWN = "There are too few rows to sample.", "All answers were known."


@dataclass
class _Process:
    """A certificate with the bins it watches. An error there is another label than `own`, or the label `other`."""

    certificate: Certificate
    inside: NDArray[np.bool_]
    own: int | None = None
    other: int | None = None


class LabelCascade:
    """Ask waves of units until the targets are certified; then the other units keep the cheap model's label.

    Arguments, all with one entry for each unit: `labels`, the cheap model's label from 0, or -1 where it failed;
    `confidence`, how sure the model is; `weights`, the rows of the unit; `known`, the oracle's label where it is known
    before, else -1. `classes` is the number of labels.

    `targets.accuracy` is over all rows; `targets.recall` and `targets.precision` hold for each class together.
    A NULL of the oracle counts as an error where the cheap model gave a label.

    Raises:
        ValueError: the arrays differ in length, or a weight is below 1.
    """

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
        if not len(labels) == len(confidence) == len(weights) == len(known):
            raise ValueError("Labels, confidence, weights and known answers must have the same length.")
        if len(weights) and weights.min() < 1:
            raise ValueError("A weight must be 1 or more.")
        self._targets = targets
        self._classes = classes
        self._labels = labels
        self._weights = weights
        self._rows = int(weights.sum())
        self._rng = generator(seed)
        self._answers = np.where(known >= 0, known, _UNASKED)
        self._known_rows = int(weights[known >= 0].sum())
        failed = (labels < 0) | np.isnan(confidence)
        self._failed = np.flatnonzero(failed & (known < 0))
        self._each = targets.recall is not None or targets.precision is not None
        self._bins = Bins.build(
            confidence, weights, np.flatnonzero(~failed & (known < 0)), self._rng, labels if self._each else None
        )
        self._bin_of = self._bins.bin_of(len(labels))
        self._of_class = np.zeros(classes)
        self._add_classes(known, weights)
        # One column for each class, one for NULL: how often the oracle gave it in each bin.
        self._hits = np.zeros((self._bins.number, classes + 1))
        self._wrong = np.zeros(self._bins.number)
        self._seen = np.zeros(self._bins.number)
        self._processes: list[_Process] = []
        self._accuracy: _Process | None = None
        self._false: list[_Process] = []
        self._missed: list[_Process] = []
        self._asked = self._asked_rows = self._sampled = 0
        self._waves = 0
        self._stage, self._reason = "pilot", ""
        self._pending: tuple[Floats, list[Floats]] | None = None
        self._waiting = np.empty(0, np.int64)

    # --- what the engine calls

    def next_wave(self) -> Ints:
        """Return the units to ask now; an empty array when the asking has ended."""
        if not len(self._waiting):
            self._waiting = self._choose()
        return self._waiting

    def tell(self, units: Ints, answers: Ints) -> None:
        """Take the oracle's labels of the last wave; -1 where it failed or answered NULL.

        Raises:
            ValueError: the units are not those of the last wave.
        """
        units, answers = np.asarray(units, np.int64), np.asarray(answers, np.int64)
        if len(units) != len(self._waiting) or not np.array_equal(np.sort(units), np.sort(self._waiting)):
            raise ValueError("Tell the answers of exactly the units of the last wave.")
        self._waiting = np.empty(0, np.int64)
        self._answers[units] = answers
        self._asked += len(units)
        self._asked_rows += int(self._weights[units].sum())
        self._add_classes(answers, self._weights[units])
        inside = self._bin_of[units] >= 0
        self._count(units[inside], answers[inside], self._bin_of[units][inside].astype(np.int64))

    def verdicts(self) -> Ints:
        """Return the label of each unit: the oracle's where it was asked, else the cheap model's; -1 is NULL."""
        return np.where(self._answers == _UNASKED, self._labels, self._answers)

    def predicted(self) -> float:
        """Return the predicted share of units that are asked in the end."""
        total = self._asked + int((self._answers == _UNASKED).sum())
        if not total:
            return 0.0
        left = self._bins.left.astype(float)
        if self._stage == "done" or not left.sum():
            return (self._asked + len(self._failed) * (self._stage == "pilot")) / total
        if self._stage == "pilot":
            if left.sum() < _FEWEST_UNITS:
                return 1.0
            if self._each:
                if not self._processes:
                    self._start()
                rate, _ = self._rates(1.0)
                asked = float((left * rate).sum())
                return min((asked + self._pilot_size() + len(self._failed)) / total, 1.0)
            errors = np.clip(1 - self._bins.key_mean, 0.005, 0.995)
            tail = plan.Tail(left, self._bins.weight_mean, self._bins.weight_most, errors, np.zeros(len(left)))
            budget = (1 - (self._targets.accuracy or 0.0)) * self._rows
            asked = plan.best(tail, math.log(1 / self._targets.delta), budget, 0.0).asked
            return min((asked + self._pilot_size() + len(self._failed)) / total, 1.0)
        rate, _ = self._rates(1.0)
        return min((self._asked + float((left * rate).sum())) / total, 1.0)

    def report(self) -> LabelReport:
        """Return the counts and the certified bounds so far."""
        unseen, recalls, precisions = self._certified()
        total = self._asked + int((self._answers == _UNASKED).sum())
        asked = (self._bin_of >= 0) & (self._answers != _UNASKED)
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
            useless=self._asked > 1 and self._asked >= (1 - _LEAST_SAVING) * total,
            reason=self._reason,
        )

    # --- the asking

    def _add_classes(self, answers: Ints, weights: Ints) -> None:
        given = (answers >= 0) & (answers < self._classes)
        self._of_class += np.bincount(answers[given], weights=weights[given], minlength=self._classes)

    def _choose(self) -> Ints:
        if self._stage == "pilot":
            return self._pilot()
        return np.empty(0, np.int64) if self._stage == "done" else self._wave()

    def _end(self, reason: str) -> Ints:
        self._stage, self._reason = "done", reason
        return np.empty(0, np.int64)

    def _allowed(self) -> float:
        budget = self._targets.label_budget
        return math.inf if budget is None else budget - self._asked

    def _pilot_size(self) -> float:
        count = int(self._bins.left.sum())
        few = min(100.0, max(24.0, 0.12 * count), count)  # of a small table, a pilot of 100 would be most rows
        return min(max(few, _PILOT * count), 300 + 0.002 * count)

    def _pilot(self) -> Ints:
        left = self._bins.left
        failed = self._failed
        if len(failed) > self._allowed():
            failed = failed[: int(self._allowed())]
        if left.sum() < _FEWEST_UNITS:
            return self._all(_TOO_FEW if len(failed) or left.sum() else _ALL_KNOWN, failed)
        wanted = left * (self._pilot_size() / left.sum())
        if self._allowed() < math.inf:
            room = max(self._allowed() - len(failed), 0)
            counts = np.floor(wanted * min(1.0, room / 4 / max(wanted.sum(), 1))).astype(np.int64)
        else:
            counts = np.minimum(np.floor(wanted + self._rng.random(len(wanted))).astype(np.int64), left)
        self._stage = "waves"
        units, _ = self._bins.take(counts)
        self._sampled += len(units)
        # A budget can be too small for a pilot; an empty wave would mean that the asking has ended.
        return np.concatenate([failed, units]) if len(failed) + len(units) else self._choose()

    def _all(self, reason: str, first: Ints | None = None) -> Ints:
        first = np.empty(0, np.int64) if first is None else first
        left = self._bins.left
        if len(first) + left.sum() > self._allowed():
            return self._end("The label budget is too small for the targets.")
        for process in self._processes:
            process.certificate.drop(np.zeros(self._bins.number, bool))
        units, _ = self._bins.take(left)
        self._stage, self._reason = "done", reason
        return np.concatenate([first, units])

    def _count(self, units: Ints, answers: Ints, where: Ints) -> None:
        weights = self._weights[units]
        number = self._bins.number
        wrong = answers != self._labels[units]
        self._seen += np.bincount(where, minlength=number)
        self._wrong += np.bincount(where, weights=wrong, minlength=number)
        np.add.at(self._hits, (where, np.where(answers < 0, self._classes, answers)), 1)
        self._bins.rows_left -= np.bincount(where, weights=weights, minlength=number).astype(np.int64)
        if self._pending is None:
            return
        rate, goals = self._pending
        self._pending = None
        for process, goal in zip(self._processes, goals, strict=True):
            errors = process.inside[where] & (wrong if process.other is None else answers == process.other)
            process.certificate.wave(where[errors], weights[errors].astype(float), rate, goal)

    # --- what is certified

    def _bound(self, process: _Process | None, inside: NDArray[np.bool_]) -> int:
        rows = np.where(inside, self._bins.rows_left, 0)
        return int(rows.sum()) if process is None else process.certificate.bound(rows)

    def _certified(self) -> tuple[int, list[float], list[float]]:
        """Return the most unseen errors, and the least recall and precision of each class."""
        everywhere = np.ones(self._bins.number, bool)
        # Without a label and an answer, a row can be an error of each kind.
        unscored = int(self._weights[(self._answers == _UNASKED) & (self._bin_of < 0)].sum())
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
        if np.any((self._answers == _UNASKED) & (self._bin_of < 0)):
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
            tail = plan.Tail(left, bins.weight_mean, bins.weight_most, errors, process.certificate.potential)
            found = plan.best(tail.part(inside), process.certificate.room, self._budget(process) * caution, 0.0)
            rate[inside] = np.maximum(rate[inside], found.rate)
            goal = process.certificate.potential.copy()
            goal[inside] = found.goal
            goals.append(goal)
        return rate, goals

    def _wave(self) -> Ints:
        if not self._processes:
            self._start()
        if self._held():
            return self._end("The targets are certified.")
        left = self._bins.left
        if not left.sum():
            return self._end("Every row was asked.")
        self._waves += 1
        if self._waves > _MOST_WAVES:
            return self._all("The targets were not certified in time.")
        caution = 1.0
        rate, goals = self._rates(caution)
        total = len(self._failed) + int(self._bins.sizes.sum())
        smallest = max(_SMALLEST_WAVE, _SMALLEST_SHARE * total)
        while (left * rate).sum() < smallest and caution > 0.5:
            caution *= 0.99
            rate, goals = self._rates(caution)
        if self._asked + float((left * rate).sum()) >= (1 - _LEAST_SAVING) * total:
            return self._all("Sampling would ask nearly every row.")
        return self._sample(rate, goals)

    def _sample(self, rate: Floats, goals: list[Floats]) -> Ints:
        left = self._bins.left
        heaviest = self._bins.weight_most
        share = _SHARES_OF_PLAN[min(self._waves - 1, len(_SHARES_OF_PLAN) - 1)]
        paths = [
            plan.path(process.certificate.potential, rate, goal, heaviest, share)
            for process, goal in zip(self._processes, goals, strict=True)
        ]
        part = paths[0][0]
        wanted = left * part
        allowed = self._allowed()
        reached = [end for _, end in paths]
        if wanted.sum() + len(wanted) > allowed:
            counts = np.floor(wanted * min(1.0, allowed / max(wanted.sum(), 1))).astype(np.int64)
            if not counts.sum():
                return self._end("The label budget is too small for the targets.")
            asked = counts / np.maximum(left, 1)
            reached = [
                plan.least_of(process.certificate.potential, end, asked, heaviest)
                for process, end in zip(self._processes, reached, strict=True)
            ]
            part = asked
        else:
            counts = np.minimum(np.floor(wanted + self._rng.random(len(wanted))).astype(np.int64), left)
        self._pending = (part, reached)
        units, _ = self._bins.take(counts)
        self._sampled += len(units)
        if not len(units):
            empty = np.empty(0, np.int64)
            self._count(empty, empty, empty)
            return self._choose()
        return units
