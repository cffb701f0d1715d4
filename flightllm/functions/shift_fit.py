"""Fit a change of a model's probabilities to labelled examples, or to rows without labels.

Few examples say little. So a fit counts only if it improves the answers to examples that it was not made with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_LEAST: Final = 1e-6
"""The least probability of an option: engines report less than this as 0."""
_STRENGTH, _SLOPE_STRENGTH = 0.1, 0.1
"""How strongly offsets are drawn to 0, and the slope to 1: weakly, because a model that is sure of its bias needs
offsets of 5 and more. Both were chosen on tasks that the page about examples does not report."""
_LEAST_SLOPE: Final = 0.1
"""A smaller slope would forget the model's answers, and one below 0 would turn them round."""
FEWEST_ROWS, _EVEN_ROWS = 8, 2
"""The fewest rows that calibrate, and the rows without any preference that are added to them: a sample has noise."""
_STEPS, _ENOUGH, _SHORTEST = 50, 1e-9, 1e-6
_LOWEST, _STEEPEST = 0.25, 4.0
"""The limits of a line's slope: a flatter one would make all numbers equal, and a steeper one only 0 and 1."""
_OWN_PLACE, _OWN_SLOPE = 1.0, 0.1
"""How strongly a line is drawn to the model's own numbers. They count as one example for its place. For its slope they
count as two examples that lie almost half of the scale apart."""
_FEWEST_RATED, _WORTH = 4, 0.02
"""The fewest examples that move a scale, and the part of the scale by which they must bring answers closer."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of a model's probabilities: a factor of their logarithms, and a number to add for each option."""

    slope: float
    offsets: tuple[float, ...]

    def of(self, probabilities: Sequence[float]) -> tuple[float, ...]:
        """Return shifted probabilities; their sum is 1. For a few options, numpy takes ten times as long."""
        pairs = zip(probabilities, self.offsets, strict=True)
        logs = [self.slope * math.log(max(one, _LEAST)) + offset for one, offset in pairs]
        most = max(logs)
        weights = [math.exp(one - most) for one in logs]
        total = sum(weights)
        return tuple([one / total for one in weights])


@dataclass(frozen=True, slots=True)
class Line:
    """A change of a model's numbers: `start` plus `slope` times the number, within a scale. Rows keep their order."""

    start: float
    slope: float
    least: float
    most: float

    def of(self, number: float) -> float:
        """Return the changed number."""
        return min(max(self.start + self.slope * number, self.least), self.most)


@dataclass(frozen=True, slots=True)
class Fit:
    """How well examples fit a model's answers."""

    change: Shift | Line | None
    """None if no change helps."""
    wrong: float
    """The share of wrong answers to examples that nothing was fitted to; on a scale their distance from the right
    numbers, as a share of the scale."""
    loss: float
    """The mean negative logarithm of the right option's probability, for the same examples; on a scale the distance."""


def fitted(probabilities: Sequence[Sequence[float]], wanted: Sequence[int], scale: Sequence[float] = ()) -> Fit:
    """Fit a change to examples; it is None unless it improves the answers to examples that it was not fitted to.

    `probabilities` has a row for each example with the probabilities of all options. `wanted` is the place of the right
    option of each. `scale` has the options' numbers where their expected value is the answer.

    Without a scale, a shift must make more answers right, or as many with a lower loss. Few examples say little about
    the place of a cut. So it moves only if the answers have options clearly more or less often than the examples do.
    Otherwise only the certainty changes. On a scale, a line must bring the answers closer to the right numbers.
    """
    if not wanted:
        return Fit(None, 1.0, math.inf)
    if scale:
        return _fitted_to_scale(np.array(probabilities) @ np.array(scale), np.array(scale)[wanted], scale)
    logs, right = _logs(probabilities), np.array(wanted)
    before = _judged(logs, right)
    if len(set(wanted)) < 2:
        return Fit(None, *before)
    for moves_cut in (True, False) if _leans(logs, right) else (False,):
        whole = _fit(logs, right, np.ones(len(right)), moves_cut=moves_cut)
        after = _judged(_without_each(logs, right, whole, moves_cut=moves_cut), right)
        if after < before:
            return Fit(whole, *after)
    return Fit(None, *before)


def fitted_to_rows(probabilities: Sequence[Sequence[float]]) -> Shift | None:
    """Return the shift with which a model prefers no option over all rows; None for a few rows, which say little.

    `probabilities` has a row for each row, with the probabilities of all options.
    """
    if len(probabilities) < FEWEST_ROWS:
        return None
    given = np.array(probabilities, dtype=np.float64)
    usual = (given.sum(0) + _EVEN_ROWS / given.shape[1]) / (len(given) + _EVEN_ROWS)
    return Shift(1.0, tuple((-np.log(usual * given.shape[1])).tolist()))


def _fitted_to_scale(given: _Numbers, right: _Numbers, scale: Sequence[float]) -> Fit:
    """Fit a line to the model's numbers and the right ones; further freedom would be more than a few examples tell."""
    least, width = min(scale), max(scale) - min(scale)
    own, wanted = (given - least) / width, (right - least) / width
    places = np.arange(len(own))
    without = [_line(np.delete(own, one), np.delete(wanted, one)) for one in places]
    moved = [start + slope * own[one] for one, (start, slope) in enumerate(without)]
    errors = [np.abs(np.clip(some, 0, 1) - wanted) for some in (own, np.array(moved))]
    before, after = (float(one.mean()) for one in errors)
    chance = float((errors[0] - errors[1]).std()) / math.sqrt(len(own))
    if len(own) < _FEWEST_RATED or after > before - max(_WORTH, chance):
        return Fit(None, before, before)
    start, slope = _line(own, wanted)
    return Fit(Line(least + width * start - slope * least, slope, least, max(scale)), after, after)


def _line(own: _Numbers, wanted: _Numbers) -> tuple[float, float]:
    """Return start and slope of the line of least squares, drawn to the model's own numbers; all are from 0 to 1."""
    count = len(own)
    if not count:
        return 0.0, 1.0
    middle, away = own.mean(), own - own.mean()
    slope = 1 + float((away * (wanted - own)).sum() / ((away**2).sum() + _OWN_SLOPE))
    slope = min(max(slope, _LOWEST), _STEEPEST)
    higher = (wanted - own).sum() / (count + _OWN_PLACE)
    return float(middle + higher - slope * middle), slope


def _judged(logs: _Numbers, right: NDArray[np.int64]) -> tuple[float, float]:
    """Return the share of wrong answers, and the mean loss of an answer."""
    return float((logs.argmax(1) != right).mean()), float(-logs[range(len(right)), right].mean())


def _logs(probabilities: Sequence[Sequence[float]]) -> _Numbers:
    return _normalised(np.log(np.maximum(np.array(probabilities, dtype=np.float64), _LEAST)))


def _normalised(logs: _Numbers) -> _Numbers:
    most = logs.max(-1, keepdims=True)
    found: _Numbers = logs - most - np.log(np.exp(logs - most).sum(-1, keepdims=True))
    return found


def _leans(logs: _Numbers, right: NDArray[np.int64]) -> bool:
    """Return whether the answers prefer an option by more than chance does where a model prefers none.

    Pearson's statistic compares how often options are answered and right. It must be above the value that chance
    reaches in one of six cases, which Wilson and Hilferty's formula approximates. Half an example is added to each
    option, so that an option without examples has an expected number.

    Example: of eight examples of two options, four are right each. Six answers of one option are at the limit: the
    expected numbers are 4, the statistic is 2² / 4 + 2² / 4 = 2, and the limit is 1.95.
    """
    count, options = logs.shape
    answered = np.bincount(logs.argmax(1), minlength=options)
    expected = (np.bincount(right, minlength=options) + 0.5) * count / (count + 0.5 * options)
    spread = 2 / (9 * (options - 1))
    limit = (options - 1) * (1 - spread + math.sqrt(spread)) ** 3
    return bool(((answered - expected) ** 2 / expected).sum() > limit)


def _without_each(logs: _Numbers, right: NDArray[np.int64], whole: Shift, *, moves_cut: bool) -> _Numbers:
    """Return the logarithms of each example, shifted by the fit to the other examples, near that to the `whole`.

    Among these, its option would be too rare. So the others with the same option weigh more, and the options keep their
    shares.
    """
    found = logs.copy()
    for one in range(len(right)):
        weights = np.ones(len(right))
        alike = right == right[one]
        if alike.sum() > 1:
            weights[alike] *= alike.sum() / (alike.sum() - 1)
        weights[one] = 0.0
        shift = _fit(logs, right, weights, whole, moves_cut=moves_cut)
        found[one] = _normalised(shift.slope * logs[one] + np.array(shift.offsets))
    return found


def _fit(
    logs: _Numbers, right: NDArray[np.int64], weights: _Numbers, near: Shift | None = None, *, moves_cut: bool
) -> Shift:
    """Return the shift of the least weighted loss, plus half the squares of its numbers times their strengths.

    Its offsets are 0 without `moves_cut`. The search begins at the shift `near`.
    """
    numbers = np.array([1.0, *[0.0] * logs.shape[1]] if near is None else [near.slope, *near.offsets])
    free = np.array([True, *[moves_cut] * logs.shape[1]])
    found = _least(logs, right, weights, numbers, free)
    if found[0] < _LEAST_SLOPE:
        numbers[0], free[0] = _LEAST_SLOPE, False
        found = _least(logs, right, weights, numbers, free)
    return Shift(float(found[0]), tuple(found[1:].tolist()))


def _least(
    logs: _Numbers, right: NDArray[np.int64], weights: _Numbers, numbers: _Numbers, free: NDArray[np.bool_]
) -> _Numbers:
    """Return the slope and the offsets of the least loss; those that are not `free` stay as they are in `numbers`.

    The loss is convex, so it has one minimum. Newton's method finds it, with shorter steps where it needs them.
    """
    rows, options = np.arange(len(right)), logs.shape[1]
    strengths, usual = np.array([_SLOPE_STRENGTH, *[_STRENGTH] * options]), np.array([1.0, *[0.0] * options])
    heavy = np.where(weights > 0, weights, 1.0)

    def loss(numbers: _Numbers) -> tuple[float, _Numbers]:
        given = _normalised(numbers[0] * logs + numbers[1:])
        return float(-(weights * given[rows, right]).sum() + (strengths * (numbers - usual) ** 2).sum() / 2), given

    wanted = np.bincount(right, weights, options)
    least, given = loss(numbers)
    for _ in range(_STEPS if free.any() else 0):
        shares = weights[:, None] * np.exp(given)
        certain = shares * logs
        means = certain.sum(1)
        slope = np.array([means.sum() - (weights * logs[rows, right]).sum(), *(shares.sum(0) - wanted)])
        slope += strengths * (numbers - usual)
        curve = np.diag(strengths)
        curve[0, 0] += (certain * logs).sum() - (means**2 / heavy).sum()
        curve[0, 1:] = curve[1:, 0] = certain.sum(0) - shares.T @ (means / heavy)
        curve[1:, 1:] += np.diag(shares.sum(0)) - shares.T @ (shares / heavy[:, None])
        step = np.zeros(len(numbers))
        step[free] = np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        part = 1.0
        while (found := loss(numbers - part * step))[0] > least and part > _SHORTEST:
            part /= 2
        if least - found[0] < _ENOUGH:
            break
        numbers, (least, given) = numbers - part * step, found
    return numbers
