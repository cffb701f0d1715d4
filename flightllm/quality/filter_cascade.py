"""Answer yes/no questions by a cheap model's scores where they suffice, and by the oracle elsewhere."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from flightllm.quality import calibration, plan
from flightllm.quality.bins import Bins, Floats, Ints, generator
from flightllm.quality.certificate import Certificate
from flightllm.quality.report import Report
from flightllm.quality.targets import Targets

_FEWEST_UNITS = 60
_PILOT = 0.02
_SHARES_OF_PLAN = (0.3, 0.5, 0.7, 0.9)
_LEAST_SAVING = 0.02
_SLACK = 0.0
_SPLITS = (0.15, 0.3, 0.5, 0.7, 0.85)
_SETTLED_AFTER = 5
_SMALLEST_WAVE, _SMALLEST_SHARE = 8, 0.002
_MOST_WAVES = 40
_UNASKED = -2
_TOO_FEW, _ALL_KNOWN = "There are too few rows to sample.", "All answers were known."


class FilterCascade:
    """Ask waves of units until the targets are certified; then the other units take their side of the cut.

    Arguments, all with one entry for each unit (a distinct prompt): `scores`, the cheap model's probability of yes, NaN
    where it failed; `weights`, the rows of the unit; `known`, the oracle's 1 or 0 where it is known before, else -1.
    The same seed and answers repeat the same questions.

    Units below the cut are rejected and the others accepted. A target that is absent closes its side: without a
    precision no unit is accepted unasked, without a recall no unit is rejected unasked.

    A NULL among asked units that would have been accepted counts as a found error: a NULL is not a yes.

    Raises:
        ValueError: the arrays differ in length, or a weight is below 1.
    """

    def __init__(self, scores: Floats, weights: Ints, known: NDArray[np.int8], targets: Targets, seed: int) -> None:
        scores = np.asarray(scores, np.float64)
        weights = np.asarray(weights, np.int64)
        known = np.asarray(known, np.int8)
        if not len(scores) == len(weights) == len(known):
            raise ValueError("Scores, weights and known answers must have the same length.")
        if len(weights) and weights.min() < 1:
            raise ValueError("A weight must be 1 or more.")
        self._targets = targets
        self._weights = weights
        self._rng = generator(seed)
        self._answers = np.where(known >= 0, known, _UNASKED).astype(np.int8)
        self._failed = np.flatnonzero(np.isnan(scores) & (known < 0))
        self._known_rows = int(weights[known >= 0].sum())
        open_units = np.flatnonzero(~np.isnan(scores) & (known < 0))
        self._bins = Bins.build(scores, weights, open_units, self._rng)
        self._bin_of = self._bins.bin_of(len(scores))
        self._rows = int(weights.sum())
        self._positive_rows = int(weights[known == 1].sum())
        self._hits = np.zeros(self._bins.number)
        self._seen = np.zeros(self._bins.number)
        self._certificates: tuple[Certificate, ...] = ()
        self._joint = targets.recall is None and targets.precision is None
        self._reject = np.zeros(self._bins.number, bool)
        self._flipped = False
        self._asked = self._asked_rows = self._sampled = 0
        self._waves = 0
        # The unseen errors that the last plan expects in the end, as shares of all yes answers: at first a guess.
        self._expected = (
            (1 - (targets.recall or 1.0)) / 2,
            (1 - targets.precision) / 2 if targets.precision is not None else 0.0,
        )
        self._stage = "pilot"
        self._reason = ""
        self._pending: tuple[Floats, Floats] | None = None
        self._predicted = 1.0
        self._waiting = np.empty(0, np.int64)

    # --- what the engine calls

    def next_wave(self) -> Ints:
        """Return the units to ask now; an empty array when the asking has ended."""
        if len(self._waiting):
            return self._waiting
        units = self._choose()
        self._waiting = units
        return units

    def tell(self, units: Ints, answers: NDArray[np.int8]) -> None:
        """Take the oracle's answers to the last wave: 1, 0, or -1 where it failed or answered NULL.

        Raises:
            ValueError: the units are not those of the last wave.
        """
        units = np.asarray(units, np.int64)
        answers = np.asarray(answers, np.int8)
        if len(units) != len(self._waiting) or not np.array_equal(np.sort(units), np.sort(self._waiting)):
            raise ValueError("Tell the answers of exactly the units of the last wave.")
        self._waiting = np.empty(0, np.int64)
        self._answers[units] = answers
        weights = self._weights[units]
        self._asked += len(units)
        self._asked_rows += int(weights.sum())
        self._positive_rows += int(weights[answers == 1].sum())
        where = self._bin_of[units].astype(np.int64)
        inside = where >= 0
        self._count(units[inside], answers[inside], where[inside])

    def verdicts(self) -> NDArray[np.int8]:
        """Return 1, 0 or -1 (NULL) for each unit: the oracle's answer where there is one, else the side of the cut."""
        side = np.where(self._bin_of >= 0, ~self._reject[np.maximum(self._bin_of, 0)], -1).astype(np.int8)
        return np.where(self._answers == _UNASKED, side, self._answers).astype(np.int8)

    def predicted(self) -> float:
        """Return the predicted share of units that are asked in the end."""
        total = len(self._weights) - int((self._answers >= -1).sum()) + self._asked
        if not total:
            return 0.0
        if self._stage == "done":
            return self._asked / total
        if self._stage == "pilot":
            left = self._bins.left.astype(float)
            if self._stops_at_once() or not left.sum():
                return 1.0
            share = np.clip(self._bins.key_mean, 0.01, 0.99)
            # A bin never gives more units than it has: a negative rest would have a negative variance.
            pilot = np.minimum(self._pilot_size() * left / left.sum(), left)
            asked = self._cheapest(share, left - pilot, positive=self._positive_rows + float((pilot * share).sum()))
            return min((asked + float(pilot.sum()) + len(self._failed)) / total, 1.0)
        share = self._shares()
        return min((self._asked + self._cheapest(share, self._bins.left.astype(float))) / total, 1.0)

    def report(self) -> Report:
        """Return the counts and the certified bounds so far."""
        verdicts = self.verdicts()
        false_rejects, false_accepts = self._bounds()
        accepted = int(self._weights[verdicts == 1].sum())
        true_accepts = max(accepted - false_accepts, 0)
        unscored = self._unscored
        positives = true_accepts + false_rejects + unscored
        total = len(self._weights)
        asked = (self._bin_of >= 0) & (self._answers != _UNASKED)
        reject = self._reject[self._bin_of[asked]]
        answers, weights = self._answers[asked], self._weights[asked]
        return Report(
            rows=self._rows,
            units=total,
            known_rows=self._known_rows,
            accepted=accepted,
            rejected=int(self._weights[verdicts == 0].sum()),
            asked_units=self._asked,
            asked_rows=self._asked_rows,
            sampled_units=self._sampled,
            found_false_rejects=int(weights[reject & (answers == 1)].sum()),
            found_false_accepts=int(weights[~reject & (answers != 1)].sum()),
            unseen_false_rejects=false_rejects,
            unseen_false_accepts=false_accepts,
            recall=true_accepts / positives if positives else 1.0,
            precision=true_accepts / accepted if accepted else 1.0,
            accuracy=1 - (self._both(false_rejects, false_accepts) + unscored) / self._rows if self._rows else 1.0,
            delta=self._targets.delta,
            held=bool(self._held()),
            useless=self._asked > 1 and self._asked >= (1 - _LEAST_SAVING) * (self._asked + self._left()),
            reason=self._reason,
        )

    # --- the asking

    def _choose(self) -> Ints:
        if self._stage == "pilot":
            return self._pilot()
        if self._stage == "done":
            return np.empty(0, np.int64)
        return self._wave()

    def _left(self) -> int:
        return int((self._answers == _UNASKED).sum())

    def _end(self, reason: str) -> Ints:
        self._stage, self._reason = "done", reason
        return np.empty(0, np.int64)

    def _stop(self) -> Ints:
        """End without the promise: each bin takes its likelier side, by the pilot if there was one."""
        likely = self._shares() if self._seen.sum() else self._bins.key_mean
        self._turn(likely < 0.5)
        return self._end("The label budget is too small for the targets.")

    def _allowed(self) -> int | None:
        return None if self._targets.label_budget is None else self._targets.label_budget - self._asked

    def _stops_at_once(self) -> bool:
        return int(self._bins.left.sum()) < _FEWEST_UNITS

    def _pilot_size(self) -> float:
        count = int(self._bins.left.sum())
        few = min(100.0, max(24.0, 0.12 * count), count)  # of a small table, a pilot of 100 would be most rows
        return min(max(few, _PILOT * count), 300 + 0.002 * count)

    def _pilot(self) -> Ints:
        """Ask the units without a score, and some of each bin: they show how well scores tell yes from no."""
        allowed = self._allowed()
        if allowed is not None and allowed < len(self._failed):
            # Without a score there is no side to take; the budget cannot hold the promise.
            self._failed = self._failed[:allowed]
        failed = self._failed
        if self._stops_at_once():
            return self._all(_TOO_FEW if len(failed) or self._bins.left.sum() else _ALL_KNOWN, failed)
        left = self._bins.left
        wanted = left * (self._pilot_size() / left.sum())
        if allowed is not None:
            room = max(allowed - len(failed), 0)
            wanted = np.floor(wanted * min(1.0, room / 4 / max(wanted.sum(), 1)))
        self._stage = "waves"
        counts = np.minimum(np.floor(wanted + self._rng.random(len(wanted))).astype(np.int64), left)
        # Potentials stay 0 in the pilot, so it costs nothing and proves nothing; the certificates start after it.
        units, _ = self._bins.take(counts)
        self._sampled += len(units)
        # A budget can be too small for a pilot; an empty wave would mean that the asking has ended.
        return np.concatenate([failed, units]) if len(failed) + len(units) else self._choose()

    def _all(self, reason: str, first: Iterable[int] = ()) -> Ints:
        """Ask all units that are left, as far as the budget of labels allows."""
        first = np.asarray(first, np.int64)
        left = self._bins.left
        allowed = self._allowed()
        if allowed is not None and len(first) + left.sum() > allowed:
            return self._stop()
        for certificate in self._certificates:
            certificate.drop(np.zeros(self._bins.number, bool))
        units, _ = self._bins.take(left)
        self._stage, self._reason = "done", reason
        return np.concatenate([first, units])

    def _count(self, units: Ints, answers: NDArray[np.int8], where: Ints) -> None:
        weights = self._weights[units]
        number = self._bins.number
        self._seen += np.bincount(where, minlength=number)
        self._hits += np.bincount(where, weights=answers == 1, minlength=number)
        self._bins.rows_left -= np.bincount(where, weights=weights, minlength=number).astype(np.int64)
        if not self._certificates or self._pending is None:
            return
        reject = self._reject[where]
        # A NULL does not lose a row, but its answer differs from no.
        missed = reject & ((answers == 1) if self._targets.accuracy is None else (answers != 0))
        wrong = ~reject & (answers != 1)
        rate, goal = self._pending
        self._pending = None
        for certificate, errors in self._tails(missed, wrong):
            inside = self._inside(certificate)
            certificate.wave(where[errors], weights[errors].astype(float), rate, np.where(inside, goal, 0.0))

    def _tails(
        self, missed: NDArray[np.bool_], wrong: NDArray[np.bool_]
    ) -> list[tuple[Certificate, NDArray[np.bool_]]]:
        if self._joint:
            return [(self._certificates[0], missed | wrong)]
        return [(self._certificates[0], missed), (self._certificates[1], wrong)]

    def _inside(self, certificate: Certificate) -> NDArray[np.bool_]:
        if self._joint:
            return np.ones(self._bins.number, bool)
        return self._reject if certificate is self._certificates[0] else ~self._reject

    # --- what is certified

    def _bounds(self) -> tuple[int, int]:
        rows = self._bins.rows_left
        rejected, accepted = np.where(self._reject, rows, 0), np.where(self._reject, 0, rows)
        if not self._certificates:
            return int(rejected.sum()), int(accepted.sum())
        first, second = self._certificates[0], self._certificates[-1]
        return first.bound(rejected), second.bound(accepted)

    def _both(self, false_rejects: int, false_accepts: int) -> int:
        if self._joint and self._certificates:
            return self._certificates[0].bound(self._bins.rows_left)
        return false_rejects + false_accepts

    @property
    def _unscored(self) -> int:
        """The rows that have neither a score nor an answer; each of them can be lost."""
        return int(self._weights[(self._answers == _UNASKED) & (self._bin_of < 0)].sum())

    def _held(self) -> bool:
        targets = self._targets
        false_rejects, false_accepts = self._bounds()
        if self._unscored:
            return False
        accepted = int(np.where(self._reject, 0, self._bins.rows_left).sum())
        true_accepts = self._positive_rows + accepted - false_accepts
        recall = 1.0 if targets.recall is None and not self._joint else targets.recall
        precision = 1.0 if targets.precision is None and not self._joint else targets.precision
        held = True
        if recall is not None:
            held &= false_rejects * recall <= (1 - recall) * true_accepts + 1e-9
        if precision is not None:
            held &= false_accepts * precision <= (1 - precision) * true_accepts + 1e-9
        if targets.accuracy is not None:
            held &= self._both(false_rejects, false_accepts) <= (1 - targets.accuracy) * self._rows + 1e-9
        return held

    # --- the plan

    def _shares(self) -> Floats:
        """Estimate the share of yes answers of each bin."""
        classes = self._bins.classes
        hits = self._hits.reshape(-1, classes).sum(1)
        seen = self._seen.reshape(-1, classes).sum(1)
        key = self._bins.key_mean.reshape(-1, classes)
        size = self._bins.sizes.reshape(-1, classes)
        scores = (key * size).sum(1) / np.maximum(size.sum(1), 1)
        return np.repeat(calibration.rates(hits, seen, scores), classes)

    def _order(self) -> Ints:
        """The bins from the least likely yes to the most."""
        order = np.arange(self._bins.number)
        return order[::-1] if self._flipped else order

    def _limits(self, total: float) -> tuple[float, float, float]:
        """The rows of unseen false rejects, of false accepts and of both that the targets allow, about."""
        targets = self._targets
        wrong = (1 - targets.accuracy) * self._rows if targets.accuracy is not None else math.inf
        if self._joint:
            return wrong, wrong, wrong
        recall, precision = targets.recall, targets.precision
        missed_share, false_share = self._expected
        if recall is None:
            missed_share = 0.0
        # The yes answers among asked rows, and all accepted rows, of which as many can be false as precision allows.
        positive = total * (1 - missed_share + false_share)
        sure = positive * (precision if precision is not None else 1)
        missed = 0.0 if recall is None else (1 - recall) / recall * sure
        false = 0.0 if precision is None else (1 - precision) / precision * sure
        if targets.accuracy is not None and missed + false > wrong:
            missed, false = missed * wrong / (missed + false), false * wrong / (missed + false)
        return missed, false, wrong

    @property
    def _settled(self) -> bool:
        """Whether the cut stays where it is: later moves would waste what the tails have."""
        return self._waves >= _SETTLED_AFTER

    def _tail(self, units: Floats, errors: Floats, certificate: int) -> plan.Tail:
        has = len(self._certificates) > 0
        potential = self._certificates[certificate].potential if has else np.zeros(self._bins.number)
        return plan.Tail(units, self._bins.weight_mean, self._bins.weight_most, errors, potential)

    def _cheapest(self, shares: Floats, units: Floats, positive: float | None = None) -> float:
        """Return the units that the best cut is expected to ask, and remember the cut and the split of delta."""
        total = (self._positive_rows if positive is None else positive) + float(
            (units * self._bins.weight_mean * shares).sum()
        )
        missed, false, both = self._limits(total)
        order = self._order()
        step = self._bins.classes
        rejects = self._tail(units, shares, 0).part(order)
        accepts = self._tail(units, 1 - shares, -1).part(order[::-1])
        splits = np.array(_SPLITS)
        if self._joint:
            room = self._certificates[0].room if self._certificates else math.log(1 / self._targets.delta)
            asked = plan.by_cut_of_both(rejects, accepts, room, both)[None, ::step]
        else:
            if self._targets.recall is None:
                splits = np.array([0.0001])
            elif self._targets.precision is None:
                splits = np.array([0.9999])
            first, second = (np.log(1 / (self._targets.delta * part)) for part in (splits, 1 - splits))
            if self._certificates:
                first, second = (np.array([certificate.room]) for certificate in self._certificates)
            low = plan.by_cut(rejects, first, missed, _SLACK)
            high = plan.by_cut(accepts, second, false, _SLACK)
            asked = (low + high[:, ::-1])[:, ::step]
            if self._targets.recall is None:
                asked = asked[:, :1]
            elif self._targets.precision is None:
                asked[:, :-1] = np.inf
        at = np.unravel_index(int(asked.argmin()), asked.shape)
        self._best = (int(at[1]), 0.5 if self._joint or self._certificates else float(splits[at[0]]))
        return float(asked[at])

    def _place(self, cut: int) -> None:
        reject = np.zeros(self._bins.number, bool)
        reject[self._order()[: cut * self._bins.classes]] = True
        self._turn(reject)

    def _turn(self, reject: NDArray[np.bool_]) -> None:
        """Reject these bins and accept the others."""
        # Other rows are errors on the other side, so what a moved bin has gained there counts no more.
        stays = reject == self._reject
        self._reject = reject
        for certificate in self._certificates:
            certificate.drop(stays & self._inside(certificate))

    def _start(self) -> None:
        """Fix the direction of the scores and the split of delta, from the pilot, and start the certificates."""
        classes = self._bins.classes
        self._flipped = calibration.falls(
            self._hits.reshape(-1, classes).sum(1), self._seen.reshape(-1, classes).sum(1)
        )
        self._cheapest(self._shares(), self._bins.left.astype(float))
        cut, split = self._best
        delta = self._targets.delta
        levels = [delta] if self._joint else [delta * split, delta * (1 - split)]
        self._certificates = tuple(Certificate(self._bins.number, level) for level in levels)
        self._place(cut)

    def _wave(self) -> Ints:
        if not self._certificates:
            self._start()
        if self._held():
            return self._end("The targets are certified.")
        left = self._bins.left
        if not left.sum():
            return self._end("Every row was asked.")
        self._waves += 1
        if self._waves > _MOST_WAVES:
            return self._all("The targets were not certified in time.")
        shares = self._shares()
        cheapest = self._cheapest(shares, left.astype(float))
        if not self._settled:
            self._place(self._best[0])
        total = len(self._failed) + int(self._bins.sizes.sum())
        if self._asked + cheapest >= (1 - _LEAST_SAVING) * total:
            return self._all("Sampling would ask nearly every row.")
        self._caution = 1.0
        self._rates(shares, left.astype(float))
        rate, goal = self._rates(shares, left.astype(float))
        smallest = max(_SMALLEST_WAVE, _SMALLEST_SHARE * total)
        while (left * rate).sum() < smallest and self._caution > 0.5:
            self._caution *= 0.99
            rate, goal = self._rates(shares, left.astype(float))
        return self._sample(rate, goal)

    def _rates(self, shares: Floats, left: Floats) -> tuple[Floats, Floats]:
        total = self._positive_rows + float((left * self._bins.weight_mean * shares).sum())
        missed, false, both = self._limits(total)
        rate, goal = np.ones(self._bins.number), np.zeros(self._bins.number)
        errors = np.where(self._reject, shares, 1 - shares)
        parts = [(np.ones(self._bins.number, bool), 0, both)]
        if not self._joint:
            parts = [(self._reject, 0, missed), (~self._reject, 1, false)]
        for inside, which, budget in parts:
            tail = self._tail(left, errors, which).part(inside)
            found = plan.best(tail, self._certificates[which].room, budget * self._caution, _SLACK)
            rate[inside], goal[inside] = found.rate, found.goal
        unseen = left * self._bins.weight_mean * errors * (1 - rate)
        missed, false = float(unseen[self._reject].sum()), float(unseen[~self._reject].sum())
        self._expected = (missed / max(total, 1e-9), false / max(total, 1e-9))
        return rate, goal

    def _sample(self, rate: Floats, goal: Floats) -> Ints:
        left = self._bins.left
        before = np.where(self._reject, self._certificates[0].potential, self._certificates[-1].potential)
        share = _SHARES_OF_PLAN[min(self._waves - 1, len(_SHARES_OF_PLAN) - 1)]
        part, reached = plan.path(before, rate, goal, self._bins.weight_most, share)
        wanted = left * part
        allowed = self._allowed()
        if allowed is not None and wanted.sum() + len(wanted) > allowed:
            counts = np.floor(wanted * min(1.0, allowed / max(wanted.sum(), 1))).astype(np.int64)
            part = counts / np.maximum(left, 1)
            reached = plan.least_of(before, reached, part, self._bins.weight_most)
            if not counts.sum():
                return self._stop()
        else:
            # Rounded at random, so that each unit of a bin has exactly the rate `part`.
            counts = np.minimum(np.floor(wanted + self._rng.random(len(wanted))).astype(np.int64), left)
        self._pending = (part, reached)
        units, _ = self._bins.take(counts)
        self._sampled += len(units)
        if not len(units):
            return self._choose_again()
        return units

    def _choose_again(self) -> Ints:
        """Take a wave without units as asked: the potentials move, and the next wave follows."""
        empty = np.empty(0, np.int64)
        self._count(empty, empty.astype(np.int8), empty)
        return self._choose()
