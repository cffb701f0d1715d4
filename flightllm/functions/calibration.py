"""Put the cut between the options of a choice where a call's examples, or its rows, say it is.

A model can rank rows well and still answer Yes to nearly all of them. One number per option, added to its log
probability, moves the cut. One factor for all log probabilities takes away or adds certainty. These numbers are fitted
to the examples of the call. Each example is asked twice: without examples, and with the other examples before it, so
that the model cannot copy its answer. The examples stay in the prompts of the rows only if the model answers clearly
better with them: examples in a prompt move its answers too, often to the wrong side. Without labels, the offsets can
make all options equally probable over the rows. That harms where one option is rightly rare.

Sources: Platt, "Probabilistic Outputs for Support Vector Machines", 1999, for the fit with few labels; Zhao et al.,
"Calibrate Before Use", arXiv 2102.09690, for the bias of prompts with examples; Zhou et al., "Batch Calibration", arXiv
2309.17249, for rows without labels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import AICallError
from flightllm.functions.base import CALIBRATE, Answer, Literal
from flightllm.functions.call import AICall
from flightllm.functions.confidence import all_known, joined, split
from flightllm.functions.guidance import Example, guided
from flightllm.llm.engine import Choice

_Numbers = NDArray[np.float64]
_LEAST: float = 1e-6
"""The least probability of an option: engines report less than this as 0."""
_STRENGTH, _SLOPE_STRENGTH = 0.1, 0.1
"""How strongly offsets are drawn to 0, and the slope to 1: weakly, because a model that is sure of its bias needs
offsets of 5 and more. Both were chosen on tasks that the page about prompt formats does not report."""
_LEAST_SLOPE = 0.1
"""A smaller slope would forget the model's answers, and one below 0 would turn them round."""
_CLEARLY = 0.1
"""By this much the mean loss of an example must be lower with examples in its prompt, so that they stay there."""
_MOST_EXAMPLES = 64
"""The most examples that are asked to calibrate a call."""
FEWEST_ROWS, _EVEN_ROWS = 8, 2
"""The fewest rows that calibrate, and the rows without any preference that are added to them: a sample has noise."""
_STEPS, _ENOUGH, _SHORTEST = 50, 1e-9, 1e-6


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
class Fit:
    """How well examples fit a model's answers."""

    shift: Shift | None
    """None if no shift helps."""
    wrong: float
    """The share of wrong answers to examples that nothing was fitted to."""
    loss: float
    """The mean negative logarithm of the right option's probability, for the same examples."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An example that calibrates a call."""

    answer: Answer
    """The question with the other examples before it."""
    values: tuple[str | None, ...]
    """The value of each field of the call."""
    wanted: int
    """The place of the right option."""


def calibrated_by_examples(
    answer: Answer, values: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> str | None:
    """Return why examples do not calibrate a call with these options' `values`; empty if they do.

    Return None if they are not meant to: the call does not choose, has no rows, or says `calibrate => 'off'`.
    """
    if not (isinstance(answer.constraint, Choice) and fields and values[CALIBRATE.name] == "examples"):
        return None
    if values.get("temperature"):
        return "at a temperature above 0 the answers are random"
    if len({one.answer for one in examples}) < 2:
        return "all have the same answer"
    return f"more than {_MOST_EXAMPLES} would be asked" if len(examples) > _MOST_EXAMPLES else ""


def held_out(
    answer: Answer, options: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> list[HeldOut]:
    """Return each example of a choice, to be asked with the other examples before it."""
    choices = answer.constraint.options if isinstance(answer.constraint, Choice) else ()
    found = []
    for place, one in enumerate(examples):
        others = [*examples[:place], *examples[place + 1 :]]
        given = dict(one.fields)
        values = tuple(map(given.get, fields))
        found.append(HeldOut(guided(answer, options, fields, others), values, choices.index(one.answer)))
    return found


def fitted(probabilities: Sequence[Sequence[float]], wanted: Sequence[int]) -> Fit:
    """Fit a shift to examples; it is None unless it improves the answers to examples that it was not fitted to.

    More of these answers must be right, or as many with a lower loss. `probabilities` has a row for each example with
    the probabilities of all options. `wanted` is the place of the right option of each.

    Few examples say little about the place of a cut. So it moves only if the answers have options clearly more or less
    often than the examples do. Otherwise only the certainty changes.
    """
    if not wanted:
        return Fit(None, 1.0, math.inf)
    logs, right = _logs(probabilities), np.array(wanted)
    before = _judged(logs, right)
    if len(set(wanted)) < 2:
        return Fit(None, *before)
    for moves_cut in (True, False) if _leans(logs, right) else (False,):
        after = _judged(_without_each(logs, right, moves_cut=moves_cut), right)
        if after < before:
            return Fit(_fit(logs, right, np.ones(len(right)), moves_cut=moves_cut), *after)
    return Fit(None, *before)


def helps_in_prompts(inside: Fit, outside: Fit) -> bool:
    """Return whether a model answers clearly better with examples in its prompts: more often right, and surer."""
    return inside.wrong < outside.wrong and inside.loss < outside.loss - _CLEARLY


def calibrated_by_rows(answer: Answer, values: Mapping[str, Literal], fields: Sequence[str]) -> bool:
    """Return true for a call that rows can calibrate; `values` are those of its options.

    Raises:
        AICallError: the call has no options, no fields, a temperature above 0, or `fresh => true`.
    """
    reason = (
        "the call does not choose one of several options"
        if not isinstance(answer.constraint, Choice)
        else "the call has no fields"
        if not fields
        else "the temperature is above 0"
        if values.get("temperature")
        else "fresh => true keeps no answer about a sampled row for the row itself"
        if values.get("fresh")
        else ""
    )
    if reason:
        raise AICallError(f"calibrate => 'batch' cannot work because {reason}: leave it out")
    return True


def fitted_to_rows(probabilities: Sequence[Sequence[float]]) -> Shift | None:
    """Return the shift with which a model prefers no option over all rows; None for a few rows, which say little.

    `probabilities` has a row for each row, with the probabilities of all options.
    """
    if len(probabilities) < FEWEST_ROWS:
        return None
    given = np.array(probabilities, dtype=np.float64)
    usual = (given.sum(0) + _EVEN_ROWS / given.shape[1]) / (len(given) + _EVEN_ROWS)
    return Shift(1.0, tuple((-np.log(usual * given.shape[1])).tolist()))


def with_shift(call: AICall, shift: Shift) -> AICall:
    """Return a call that chooses by shifted probabilities, wherever the model's probabilities are known."""
    constraint, parse = call.parameters.constraint, call.parse
    options = constraint.options if isinstance(constraint, Choice) else ()
    spelled = frozenset(options)

    def parse_shifted(text: str) -> Any:
        chosen, probabilities = split(text)
        if not all_known(probabilities, len(options)):
            return parse(text)
        if chosen not in spelled:
            parse(text)  # a text without an option stays unusable
        found = shift.of(probabilities)
        return parse(joined(options[found.index(max(found))], found))

    return replace(call, parse=parse_shifted)


def probabilities_of(call: AICall) -> AICall:
    """Return a call whose value is the list of its options' probabilities, or the error of its answer.

    The list is empty where the probabilities are unknown.
    """
    constraint = call.parameters.constraint
    count = len(constraint.options) if isinstance(constraint, Choice) else 0

    def parse(text: str) -> list[float]:
        call.parse(text)
        probabilities = split(text)[1]
        return list(probabilities) if all_known(probabilities, count) else []

    return replace(
        call, parse=parse, output=pa.list_(pa.float64()), on_error="struct", fresh=False, reading="probabilities"
    )


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
    """Return whether the answers prefer an option by more than chance does where a model prefers none."""
    options = logs.shape[1]
    answered = np.bincount(logs.argmax(1), minlength=options)
    return bool(np.abs(answered - np.bincount(right, minlength=options)).sum() / 2 >= math.sqrt(len(right) / 2))


def _without_each(logs: _Numbers, right: NDArray[np.int64], *, moves_cut: bool) -> _Numbers:
    """Return the logarithms of each example, shifted by the fit to the other examples.

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
        shift = _fit(logs, right, weights, moves_cut=moves_cut)
        found[one] = _normalised(shift.slope * logs[one] + np.array(shift.offsets))
    return found


def _fit(logs: _Numbers, right: NDArray[np.int64], weights: _Numbers, *, moves_cut: bool) -> Shift:
    """Return the shift of the least weighted loss, plus half the squares of its numbers times their strengths.

    Its offsets are 0 without `moves_cut`.
    """
    numbers = np.array([1.0, *[0.0] * logs.shape[1]])
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
