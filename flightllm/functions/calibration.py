"""Put the cut between the options of a choice where a call's examples, or its rows, say it is.

A model can rank rows well and still answer Yes to nearly all of them. One number per option, added to its log
probability, moves the cut. One factor for all log probabilities takes away or adds certainty. The ratings of a scale
move along a line instead. These numbers are fitted to the examples of the call. Each example is asked twice: without
examples, and with the other examples before it, so that the model cannot copy its answer. The examples stay in the
prompts of the rows only if the model answers clearly better with them: examples in a prompt move its answers too, often
to the wrong side. Without labels, the offsets can make all options equally probable over the rows. That harms where one
option is rightly rare.

Sources: Platt, "Probabilistic Outputs for Support Vector Machines", 1999, for the fit with few labels; Zhao et al.,
"Calibrate Before Use", arXiv 2102.09690, for the bias of prompts with examples; Zhou et al., "Batch Calibration", arXiv
2309.17249, for rows without labels.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import AICallError
from flightllm.functions.base import CALIBRATE, Answer, Literal
from flightllm.functions.call import AICall, Labelled, LabelledExample, Wording
from flightllm.functions.compared import compared
from flightllm.functions.confidence import EXPECTED, all_known, in_parts, joined, split
from flightllm.functions.guidance import Example, guided
from flightllm.functions.normalize import normalised, read_normalize
from flightllm.functions.shift_fit import Fit, Line, Shift, fitted
from flightllm.llm.engine import Choice

_CLEARLY: Final = 0.1
"""By this much the mean loss of an example must be lower with examples in its prompt, so that they stay there."""
_MOST_EXAMPLES: Final = 64
"""The most examples that are asked to calibrate a call."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The conclusion from the answers to a call's examples."""

    in_prompts: bool
    """Whether the examples stay in the prompts of the rows."""
    change: Shift | Line | None
    """The change of the probabilities or numbers; None if no change helps."""


def calibrated_by_examples(
    answer: Answer, options: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> str | None:
    """Return why examples do not calibrate a call with these `options`; empty if they do.

    Return None if they are not meant to: the call has no fields, or another `calibrate`.
    """
    if not fields or options.get(CALIBRATE.name) != "examples":
        return None
    if not isinstance(answer.constraint, Choice):
        return "the answer is not one of a few options"
    if options.get("temperature"):
        return "at a temperature above 0 the answers are random"
    if len({one.answer for one in examples}) < 2:
        return "all have the same answer"
    count = len(_distinct(examples, _normalised_by(options)))
    return f"{count} would be asked, and {_MOST_EXAMPLES} are the most" if count > _MOST_EXAMPLES else ""


def labelled(
    answer: Answer, options: Mapping[str, Literal], fields: Sequence[str], examples: Sequence[Example]
) -> Labelled:
    """Return the examples of a choice, each to be asked by itself, and with the other examples before it.

    An example that is there twice is asked once. Others with the same values are not before it, because the model
    could copy their answers.
    """
    choices = answer.constraint.options if isinstance(answer.constraint, Choice) else ()
    how = _normalised_by(options)
    found = []
    for one in (distinct := _distinct(examples, how)):
        others = [other for other in distinct if _values(other, how) != _values(one, how)]
        given = dict(one.fields)
        values = tuple(map(given.get, fields))
        wording = _wording(guided(answer, options, fields, others))
        found.append(LabelledExample(wording, values, choices.index(one.answer)))
    return Labelled(tuple(found), _wording(guided(answer, options, fields, [])), _scale(answer, choices))


def decided(
    wanted: Sequence[int],
    alone: Sequence[Sequence[float]],
    aided: Sequence[Sequence[float]],
    scale: Sequence[float] = (),
) -> Decision:
    """Decide by the answers to examples whether they stay in prompts, and how answers change.

    `alone` has the probabilities of all options for each example by itself, and `aided` with the others before it.
    `wanted` has the place of the right option of each; see `fitted` for `scale`.
    """
    outside, inside = fitted(alone, wanted, scale), fitted(aided, wanted, scale)
    stays = helps_in_prompts(inside, outside)
    return Decision(stays, (inside if stays else outside).change)


def helps_in_prompts(inside: Fit, outside: Fit) -> bool:
    """Return whether a model answers clearly better with examples in its prompts: more often right, and surer."""
    return inside.wrong < outside.wrong and inside.loss < outside.loss - _CLEARLY


def check_calibrated_by_rows(answer: Answer, options: Mapping[str, Literal], fields: Sequence[str]) -> None:
    """Check that rows can calibrate a call with these `options`.

    Raises:
        AICallError: the call has no options, no fields, a temperature above 0, or `fresh => true`.
    """
    reason = ""
    if not isinstance(answer.constraint, Choice):
        reason = "the call does not choose one of several options"
    elif not fields:
        reason = "the call has no fields"
    elif options.get("temperature"):
        reason = "the temperature is above 0"
    elif options.get("fresh"):
        reason = "fresh => true keeps no answer about a sampled row for the row itself"
    if reason:
        raise AICallError(f"calibrate => 'batch' cannot work because {reason}: leave out calibrate => 'batch'")


def with_change(call: AICall, change: Shift | Line) -> AICall:
    """Return a call with changed probabilities or numbers, wherever the model's probabilities are known."""
    if call.before is not None:  # numbers change before the comparison
        inner, comparison = call.before
        changed = compared(with_change(inner, change), comparison)
        return replace(call, parse=changed.parse, before=changed.before)
    return with_line(call, change) if isinstance(change, Line) else with_shift(call, change)


def with_line(call: AICall, line: Line) -> AICall:
    """Return a call with changed numbers, wherever they are expected values; confidences stay as they are."""
    constraint = call.parameters.constraint
    count = len(constraint.options) if isinstance(constraint, Choice) else 0

    def parse_moved(text: str) -> Any:
        value = call.parse(text)
        if not all_known(split(text)[1], count):
            return value
        if isinstance(value, dict):
            return {**value, "answer": in_parts(line.of(value["answer"]))}
        return in_parts(line.of(value))

    return replace(call, parse=parse_moved)


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


def _distinct(examples: Sequence[Example], how: AbstractSet[str]) -> list[Example]:
    """Return the examples without those whose values and answer an earlier one has."""
    found: dict[tuple[object, ...], Example] = {}
    for one in examples:
        found.setdefault((_values(one, how), one.answer), one)
    return list(found.values())


def _values(example: Example, how: AbstractSet[str]) -> frozenset[tuple[str, str]]:
    """Return the values of an example as rows are compared."""
    return frozenset((name, normalised(value, how)) for name, value in example.fields)


def _normalised_by(options: Mapping[str, Literal]) -> AbstractSet[str]:
    given = options.get("normalize")
    return read_normalize(given) if isinstance(given, str) else frozenset()


def _wording(answer: Answer) -> Wording:
    return Wording(answer.instruction, answer.asked)


def _scale(answer: Answer, options: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of the options where their expected value is the answer."""
    return tuple(map(float, options)) if answer.reading == EXPECTED else ()
