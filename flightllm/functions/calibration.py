"""Put the cut between the options of a choice where a call's examples, or its rows, say it is.

A model can rank rows well and still answer Yes to nearly all of them. One number per option, added to its log
probability, moves the cut. The numbers are fitted to the examples of the call: each example is asked once, with the
other examples before it, so that the model cannot copy its answer. Without labels, the numbers can make all options
equally probable over the rows. That harms where one option is rightly rare.

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
_STRENGTH = 0.1
"""How strongly offsets are drawn to 0: weakly, because a model that is sure of its bias needs offsets of 5 and more."""
_MOST_EXAMPLES = 64
"""The most examples that are asked to calibrate a call."""
_FEWEST_ROWS, _EVEN_ROWS = 8, 2
"""The fewest rows that calibrate, and the rows without any preference that are added to them: a sample has noise."""
_STEPS, _ENOUGH, _MOST_STEP = 50, 1e-6, 4.0


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


def fitted_offsets(probabilities: Sequence[Sequence[float]], wanted: Sequence[int]) -> tuple[float, ...] | None:
    """Return one offset per option; None unless they bring examples that they were not fitted to closer to the truth.

    `probabilities` has a row for each example with the probabilities of all options. `wanted` is the place of the right
    option of each. An offset adds to the logarithm of a probability.
    """
    if len(set(wanted)) < 2:  # also without examples
        return None
    logs, right = _logs(probabilities), np.array(wanted)
    everyone = np.arange(len(right))
    before = after = 0.0
    for one in everyone:
        others = everyone != one
        offsets = _fit(logs[others], right[others])
        before -= _normalised(logs[one])[right[one]]
        after -= _normalised(logs[one] + offsets)[right[one]]
    return tuple(_fit(logs, right).tolist()) if after < before else None


def calibrated_by_rows(answer: Answer, values: Mapping[str, Literal], fields: Sequence[str]) -> bool:
    """Return true for a call that rows can calibrate; `values` are those of its options.

    Raises:
        AICallError: the call has no options, no fields, or a temperature above 0.
    """
    reason = (
        "the call does not choose one of several options"
        if not isinstance(answer.constraint, Choice)
        else "the call has no fields"
        if not fields
        else "the temperature is above 0"
        if values.get("temperature")
        else ""
    )
    if reason:
        raise AICallError(f"calibrate => 'batch' cannot work because {reason}: leave it out")
    return True


def row_offsets(probabilities: Sequence[Sequence[float]]) -> tuple[float, ...] | None:
    """Return the offsets with which a model prefers no option over all rows; None for a few rows, which say little.

    `probabilities` has a row for each row, with the probabilities of all options.
    """
    if len(probabilities) < _FEWEST_ROWS:
        return None
    given = np.array(probabilities, dtype=np.float64)
    usual = (given.sum(0) + _EVEN_ROWS / given.shape[1]) / (len(given) + _EVEN_ROWS)
    return tuple((-np.log(usual * given.shape[1])).tolist())


def shifted(probabilities: Sequence[float], offsets: Sequence[float]) -> tuple[float, ...]:
    """Return probabilities with an offset added to the logarithm of each; their sum is 1."""
    return _weighted(probabilities, _factors(offsets))


def with_offsets(call: AICall, offsets: Sequence[float]) -> AICall:
    """Return a call that chooses by shifted probabilities, wherever the model's probabilities are known."""
    constraint, parse = call.parameters.constraint, call.parse
    options = constraint.options if isinstance(constraint, Choice) else ()
    spelled, factors = frozenset(options), _factors(offsets)

    def parse_shifted(text: str) -> Any:
        chosen, probabilities = split(text)
        if not all_known(probabilities, len(options)):
            return parse(text)
        if chosen not in spelled:
            parse(text)  # a text without an option stays unusable
        found = _weighted(probabilities, factors)
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


def _factors(offsets: Sequence[float]) -> tuple[float, ...]:
    """Return the factors of probabilities that offsets mean. The largest is 1, because large ones overflow."""
    most = max(offsets, default=0.0)
    return tuple(math.exp(one - most) for one in offsets)


def _weighted(probabilities: Sequence[float], factors: Sequence[float]) -> tuple[float, ...]:
    """Return probabilities times factors; their sum is 1. For a few options, numpy takes ten times as long."""
    weights = [factor * max(one, _LEAST) for one, factor in zip(probabilities, factors, strict=True)]
    total = sum(weights)
    return tuple([one / total for one in weights])


def _logs(probabilities: Sequence[float] | Sequence[Sequence[float]]) -> _Numbers:
    found: _Numbers = np.log(np.maximum(np.array(probabilities, dtype=np.float64), _LEAST))
    return found


def _normalised(logs: _Numbers) -> _Numbers:
    most = logs.max(-1, keepdims=True)
    found: _Numbers = logs - most - np.log(np.exp(logs - most).sum(-1, keepdims=True))
    return found


def _fit(logs: _Numbers, right: NDArray[np.int64]) -> _Numbers:
    """Return the offsets of the least loss, plus `_STRENGTH` / 2 for the sum of their squares, by Newton's method."""
    options = logs.shape[1]
    counts = np.bincount(right, minlength=options)
    offsets = np.zeros(options)
    for _ in range(_STEPS):
        shares = np.exp(_normalised(logs + offsets))
        slope = shares.sum(0) - counts + _STRENGTH * offsets
        curve = np.diag(shares.sum(0) + _STRENGTH) - shares.T @ shares
        step = np.linalg.solve(curve, slope)
        offsets -= step * min(1.0, _MOST_STEP / max(np.abs(step).max(), math.ulp(1.0)))
        if np.abs(step).max() < _ENOUGH:
            break
    return offsets
