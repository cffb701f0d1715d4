"""Answer yes/no questions by a cheap model's scores where they suffice, and by the oracle elsewhere."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flightllm.quality import calibration, plan
from flightllm.quality.bins import Floats, Ints
from flightllm.quality.certificate import Certificate
from flightllm.quality.report import Report
from flightllm.quality.targets import Targets
from flightllm.quality.waves import LEAST_SAVING, UNASKED, Flags, Waves, check_arrays

_SPLITS = (0.15, 0.3, 0.5, 0.7, 0.85)
_SETTLED_AFTER = 5


class FilterCascade(Waves[np.int8]):
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

    PILOT = 0.02
    SHARES_OF_PLAN = (0.3, 0.5, 0.7, 0.9)

    def __init__(self, scores: Floats, weights: Ints, known: NDArray[np.int8], targets: Targets, seed: int) -> None:
        scores = np.asarray(scores, np.float64)
        weights = np.asarray(weights, np.int64)
        known = np.asarray(known, np.int8)
        check_arrays(weights, scores, known)
        super().__init__(scores, weights, known, ~np.isnan(scores), targets, seed)
        self._positive_rows = int(weights[known == 1].sum())
        self._hits = np.zeros(self._bins.number)
        self._joint = targets.recall is None and targets.precision is None
        self._reject = np.zeros(self._bins.number, bool)
        self._flipped = False
        # The unseen errors that the last plan expects in the end, as shares of all yes answers: at first a guess.
        self._expected = (
            (1 - (targets.recall or 1.0)) / 2,
            (1 - targets.precision) / 2 if targets.precision is not None else 0.0,
        )

    # --- what the engine calls

    def verdicts(self) -> NDArray[np.int8]:
        """Return 1, 0 or -1 (NULL) for each unit: the oracle's answer where there is one, else the side of the cut."""
        side = np.where(self._bin_of >= 0, ~self._reject[np.maximum(self._bin_of, 0)], -1).astype(np.int8)
        return np.where(self._answers == UNASKED, side, self._answers).astype(np.int8)

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
        asked = (self._bin_of >= 0) & (self._answers != UNASKED)
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
            useless=self._useless,
            reason=self._reason,
        )

    # --- the asking

    def _stop(self) -> Ints:
        """End without the promise: each bin takes its likelier side, by the pilot if there was one."""
        likely = self._shares() if self._seen.sum() else self._bins.key_mean
        self._turn(likely < 0.5)
        return super()._stop()

    def _add(self, answers: NDArray[np.int8], weights: Ints) -> None:
        self._positive_rows += int(weights[answers == 1].sum())

    def _learn(self, units: Ints, answers: NDArray[np.int8], where: Ints) -> None:
        del units
        self._hits += np.bincount(where, weights=answers == 1, minlength=self._bins.number)

    def _errors_of(self, units: Ints, answers: NDArray[np.int8], where: Ints) -> list[Flags]:
        del units
        reject = self._reject[where]
        # A NULL does not lose a row, but its answer differs from no.
        missed = reject & ((answers == 1) if self._targets.accuracy is None else (answers != 0))
        wrong = ~reject & (answers != 1)
        return [missed | wrong] if self._joint else [missed, wrong]

    def _watched(self) -> list[Flags]:
        return [np.ones(self._bins.number, bool)] if self._joint else [self._reject, ~self._reject]

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
        return plan.Tail(units, self._bins.weight_most, errors, potential)

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
            low = plan.by_cut(rejects, first, missed)
            high = plan.by_cut(accepts, second, false)
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
        if self._certificates:
            for certificate, inside in zip(self._certificates, self._watched(), strict=True):
                certificate.drop(stays & inside)

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
        self._certificates = [Certificate(self._bins.number, level) for level in levels]
        self._place(cut)

    def _planned(self, left: Floats, total: int) -> tuple[Floats, list[Floats]] | None:
        shares = self._shares()
        cheapest = self._cheapest(shares, left)
        if not self._settled:
            self._place(self._best[0])
        if self._asked + cheapest >= (1 - LEAST_SAVING) * total:
            return None
        self._rates(shares, left, 1.0)  # once more below, with the unseen errors that this plan expects
        return self._cautious(partial(self._rates, shares, left), left, total)

    def _rates(self, shares: Floats, left: Floats, caution: float) -> tuple[Floats, list[Floats]]:
        total = self._positive_rows + float((left * self._bins.weight_mean * shares).sum())
        missed, false, both = self._limits(total)
        rate, goal = np.ones(self._bins.number), np.zeros(self._bins.number)
        errors = np.where(self._reject, shares, 1 - shares)
        budgets = [both] if self._joint else [missed, false]
        for which, (inside, budget) in enumerate(zip(self._watched(), budgets, strict=True)):
            tail = self._tail(left, errors, which).part(inside)
            found = plan.best(tail, self._certificates[which].room, budget * caution)
            rate[inside], goal[inside] = found.rate, found.goal
        unseen = left * self._bins.weight_mean * errors * (1 - rate)
        missed, false = float(unseen[self._reject].sum()), float(unseen[~self._reject].sum())
        self._expected = (missed / max(total, 1e-9), false / max(total, 1e-9))
        return rate, [np.where(inside, goal, 0.0) for inside in self._watched()]
