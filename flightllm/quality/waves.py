"""The parts that all cascades have: a pilot, then waves that follow a plan, within a budget of labels."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from flightllm.quality import plan
from flightllm.quality.bins import Bins, Floats, Ints, generator
from flightllm.quality.certificate import Certificate
from flightllm.quality.targets import Targets

FEWEST_UNITS: Final = 60
"""Fewer units without an answer cannot be sampled, so all of them are asked."""
LEAST_SAVING: Final = 0.02
UNASKED: Final = -2
_SMALLEST_WAVE, _SMALLEST_SHARE = 8, 0.002
_MOST_WAVES: Final = 40
_TOO_FEW, _ALL_KNOWN = "There are too few rows to sample.", "All answers were known."
Flags = NDArray[np.bool_]
Answer = TypeVar("Answer", bound=np.signedinteger[Any])


class Waves(ABC, Generic[Answer]):
    """Ask units in waves until the targets are certified or the budget of labels is spent.

    A subclass says which answers are errors, what is certified, and which rates the next wave has. Each certificate
    watches some bins. The same seed and answers repeat the same questions.
    """

    PILOT: ClassVar[float]
    """The share of units in the pilot of a large table."""
    SHARES_OF_PLAN: ClassVar[tuple[float, ...]]
    """How much of its plan each wave asks; later waves ask as much as the last one."""

    def __init__(
        self,
        key: Floats,
        weights: Ints,
        known: NDArray[Answer],
        scored: Flags,
        targets: Targets,
        seed: int,
        group: Ints | None = None,
    ) -> None:
        """Put the units that are `scored` and not `known` into bins by `key`, apart by `group`."""
        self._targets = targets
        self._weights = weights
        self._rows = int(weights.sum())
        self._rng = generator(seed)
        unknown = known < 0
        self._answers = np.where(unknown, UNASKED, known).astype(known.dtype)
        self._known_rows = int(weights[~unknown].sum())
        self._failed = np.flatnonzero(~scored & unknown)
        self._bins = Bins.build(key, weights, np.flatnonzero(scored & unknown), self._rng, group)
        self._bin_of = self._bins.bin_of(len(weights))
        self._seen = np.zeros(self._bins.number)
        self._certificates: list[Certificate] = []
        self._asked = self._asked_rows = self._sampled = 0
        self._waves = 0
        self._stage, self._reason = "pilot", ""
        self._pending: tuple[Floats, list[Floats]] | None = None
        self._waiting = np.empty(0, np.int64)

    def next_wave(self) -> Ints:
        """Return the units to ask now; an empty array when the asking has ended."""
        if not len(self._waiting):
            self._waiting = self._choose()
        return self._waiting

    def tell(self, units: Ints, answers: NDArray[Answer]) -> None:
        """Take the oracle's answers to the last wave; -1 where it failed or answered NULL.

        Raises:
            ValueError: the units are not those of the last wave.
        """
        units, answers = np.asarray(units, np.int64), np.asarray(answers, self._answers.dtype)
        if len(units) != len(self._waiting) or not np.array_equal(np.sort(units), np.sort(self._waiting)):
            raise ValueError("Tell the answers of exactly the units of the last wave.")
        self._waiting = np.empty(0, np.int64)
        self._answers[units] = answers
        self._asked += len(units)
        self._asked_rows += int(self._weights[units].sum())
        self._add(answers, self._weights[units])
        where = self._bin_of[units].astype(np.int64)
        inside = where >= 0
        self._count(units[inside], answers[inside], where[inside])

    # --- what a subclass says

    @abstractmethod
    def _add(self, answers: NDArray[Answer], weights: Ints) -> None:
        """Count the rows of answers, whether their units have a score or not."""

    @abstractmethod
    def _learn(self, units: Ints, answers: NDArray[Answer], where: Ints) -> None:
        """Count the answers in each bin, for estimates."""

    @abstractmethod
    def _errors_of(self, units: Ints, answers: NDArray[Answer], where: Ints) -> list[Flags]:
        """Return, for each certificate, which answers are errors that it counts."""

    @abstractmethod
    def _watched(self) -> list[Flags]:
        """Return the bins that each certificate watches."""

    @abstractmethod
    def _held(self) -> bool:
        """Return whether the targets are certified."""

    @abstractmethod
    def _start(self) -> None:
        """Start the certificates, after the pilot."""

    @abstractmethod
    def _planned(self, left: Floats, total: int) -> tuple[Floats, list[Floats]] | None:
        """Return the rates and each certificate's final potentials; None if nearly all of `total` would be asked."""

    # --- the asking

    @property
    def _unscored(self) -> int:
        """The rows that have neither a score nor an answer; each of them can be lost."""
        return int(self._weights[(self._answers == UNASKED) & (self._bin_of < 0)].sum())

    @property
    def _useless(self) -> bool:
        return self._asked > 1 and self._asked >= (1 - LEAST_SAVING) * (self._asked + self._left())

    def _left(self) -> int:
        return int((self._answers == UNASKED).sum())

    def _allowed(self) -> float:
        budget = self._targets.label_budget
        return math.inf if budget is None else budget - self._asked

    def _choose(self) -> Ints:
        if self._stage == "pilot":
            return self._pilot()
        return np.empty(0, np.int64) if self._stage == "done" else self._wave()

    def _end(self, reason: str) -> Ints:
        self._stage, self._reason = "done", reason
        return np.empty(0, np.int64)

    def _stop(self) -> Ints:
        """End without the promise."""
        return self._end("The label budget is too small for the targets.")

    def _stops_at_once(self) -> bool:
        return int(self._bins.left.sum()) < FEWEST_UNITS

    def _pilot_size(self) -> float:
        count = int(self._bins.left.sum())
        few = min(100.0, max(24.0, 0.12 * count), count)  # of a small table, a pilot of 100 would be most rows
        return min(max(few, self.PILOT * count), 300 + 0.002 * count)

    def _pilot(self) -> Ints:
        """Ask the units without a score, and some of each bin: they show how much the scores tell."""
        allowed = self._allowed()
        if allowed < len(self._failed):
            # Without a score there is no side to take; the budget cannot hold the promise.
            self._failed = self._failed[: int(allowed)]
        failed, left = self._failed, self._bins.left
        if self._stops_at_once():
            return self._all(_TOO_FEW if len(failed) or left.sum() else _ALL_KNOWN, failed)
        wanted = left * (self._pilot_size() / left.sum())
        if allowed < math.inf:
            room = max(allowed - len(failed), 0)
            wanted = np.floor(wanted * min(1.0, room / 4 / max(wanted.sum(), 1)))
        self._stage = "waves"
        # Potentials stay 0 in the pilot, so it costs nothing and proves nothing; the certificates start after it.
        units = self._sampled_units(self._rounded(wanted))
        # A budget can be too small for a pilot; an empty wave would mean that the asking has ended.
        return np.concatenate([failed, units]) if len(failed) + len(units) else self._choose()

    def _all(self, reason: str, first: Iterable[int] = ()) -> Ints:
        """Ask all units that are left, as far as the budget of labels allows."""
        first = np.asarray(first, np.int64)
        left = self._bins.left
        if len(first) + left.sum() > self._allowed():
            return self._stop()
        for certificate in self._certificates:
            certificate.drop(np.zeros(self._bins.number, bool))
        units, _ = self._bins.take(left)
        self._stage, self._reason = "done", reason
        return np.concatenate([first, units])

    def _count(self, units: Ints, answers: NDArray[Answer], where: Ints) -> None:
        weights, number = self._weights[units], self._bins.number
        self._seen += np.bincount(where, minlength=number)
        self._learn(units, answers, where)
        self._bins.rows_left -= np.bincount(where, weights=weights, minlength=number).astype(np.int64)
        if self._pending is None:
            return
        (rate, goals), self._pending = self._pending, None
        found = self._errors_of(units, answers, where)
        for certificate, errors, goal in zip(self._certificates, found, goals, strict=True):
            certificate.wave(where[errors], weights[errors].astype(float), rate, goal)

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
        found = self._planned(left.astype(float), len(self._failed) + int(self._bins.sizes.sum()))
        return self._all("Sampling would ask nearly every row.") if found is None else self._sample(*found)

    def _cautious(
        self, rates: Callable[[float], tuple[Floats, list[Floats]]], left: Floats, total: int
    ) -> tuple[Floats, list[Floats]]:
        """Return the rates for a part of the allowed errors: a wave of very few units would prove hardly anything."""
        caution = 1.0
        rate, goals = rates(caution)
        smallest = max(_SMALLEST_WAVE, _SMALLEST_SHARE * total)
        while (left * rate).sum() < smallest and caution > 0.5:
            caution *= 0.99
            rate, goals = rates(caution)
        return rate, goals

    def _sample(self, rate: Floats, goals: list[Floats]) -> Ints:
        """Ask the first part of a plan, as far as the budget of labels allows."""
        left, heaviest = self._bins.left, self._bins.weight_most
        share = self.SHARES_OF_PLAN[min(self._waves, len(self.SHARES_OF_PLAN)) - 1]
        befores = [certificate.potential for certificate in self._certificates]
        paths = [plan.path(before, rate, goal, heaviest, share) for before, goal in zip(befores, goals, strict=True)]
        part, reached = paths[0][0], [end for _, end in paths]
        wanted, allowed = left * part, self._allowed()
        if wanted.sum() + len(wanted) > allowed:
            counts = np.floor(wanted * min(1.0, allowed / max(wanted.sum(), 1))).astype(np.int64)
            if not counts.sum():
                return self._stop()
            part = counts / np.maximum(left, 1)
            ends = zip(befores, reached, strict=True)
            reached = [plan.least_of(before, end, part, heaviest) for before, end in ends]
        else:
            counts = self._rounded(wanted)
        inside = self._watched()
        self._pending = part, [np.where(own, end, 0.0) for own, end in zip(inside, reached, strict=True)]
        units = self._sampled_units(counts)
        return units if len(units) else self._choose_again()

    def _rounded(self, wanted: Floats) -> Ints:
        """Return whole numbers, rounded at random, so that each unit of a bin has the same rate."""
        drawn = np.floor(wanted + self._rng.random(len(wanted))).astype(np.int64)
        return np.minimum(drawn, self._bins.left)

    def _sampled_units(self, counts: Ints) -> Ints:
        units, _ = self._bins.take(counts)
        self._sampled += len(units)
        return units

    def _choose_again(self) -> Ints:
        """Take a wave without units as asked: the potentials move, and the next wave follows."""
        empty = np.empty(0, np.int64)
        self._count(empty, empty.astype(self._answers.dtype), empty)
        return self._choose()


def check_arrays(weights: Ints, *others: NDArray[Any]) -> None:
    """Check the arrays of a cascade.

    Raises:
        ValueError: the arrays differ in length, or a weight is below 1.
    """
    if any(len(one) != len(weights) for one in others):
        raise ValueError("Scores, weights and known answers must have the same length.")
    if len(weights) and weights.min() < 1:
        raise ValueError("A weight must be 1 or more.")
