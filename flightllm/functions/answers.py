"""The common kinds of answers: a text, one of several options, a number, a JSON value."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import pyarrow as pa

from flightllm.common.text import excerpt
from flightllm.errors import AICallError
from flightllm.functions.base import Answer
from flightllm.functions.call import Room, Usual
from flightllm.functions.questions import ANY_OBJECT
from flightllm.functions.schema import Shape, json_value, read_schema
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

_USUAL_TOKENS = 20
_OBJECT = JsonSchema('{"type":"object"}')
_AS_OBJECT = "Answer with a JSON object alone."


def text_answer(
    instruction: str, *, max_tokens: int = 128, room: Room | None = None, usual: Usual | None = None
) -> Answer:
    """Answer with free text; surrounding white space is removed, and an empty answer is an error.

    `usual` is the usual length of an answer, for predictions. Without it, an answer is assumed to have 20 tokens.
    """
    return Answer(
        instruction, pa.string(), _parse_text, max_tokens=max_tokens, room=room, usual=usual or Usual(_USUAL_TOKENS)
    )


def choice_answer(
    instruction: str, options: Mapping[str, Any] | Sequence[str], output: pa.DataType | None = None
) -> Answer:
    """Answer with exactly one of the options; a mapping gives the value of type `output` of each option.

    Raises:
        AICallError: there is no option, an option is not a text, or a value is not of type `output`.
    """
    values = _options(options)
    type_ = pa.string() if output is None else output
    longest = max(len(option.encode()) for option in values)
    answer = Answer(instruction, type_, _one_of(values), Choice(tuple(values)), max_tokens=longest + 2)
    try:
        pa.array(values.values(), type=type_)
    except pa.ArrowNotImplementedError:
        pass  # pyarrow cannot convert values into this type at once, so only each answer is checked
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise AICallError(
            f"a value of the options is not of type {type_} ({error}): pass output, such as output=pa.int64()"
        ) from error
    return answer


def number_answer(instruction: str, low: float, high: float) -> Answer:
    """Answer with a number from `low` to `high`, as double.

    Up to 101 whole numbers (or tenths, in a range less than 4 wide) become a choice, because engines can give
    probabilities for choices. Other ranges become a pattern, and are checked when the answer is parsed.

    Raises:
        AICallError: a limit is not a finite number, or the range is empty.
    """
    low, high = _limit("low", low), _limit("high", high)
    if low >= high:
        raise AICallError(f"low => {low:g} must be less than high => {high:g}")
    return Answer(instruction, pa.float64(), _number_between(low, high), _number_constraint(low, high), max_tokens=16)


def json_answer(instruction: str, schema: str | Mapping[str, Any] | Sequence[str]) -> Answer:
    """Answer with a JSON value that follows a JSON Schema, or with an object with the named text fields.

    The schema is a JSON text or a dict. The value has the Arrow type that follows from it; parsing validates the value.
    The value for the schema `ANY_OBJECT` is a text with a JSON object.

    Raises:
        AICallError: the schema is not a JSON Schema, or the schema has no Arrow type.
    """
    if schema == ANY_OBJECT:
        answer = Answer(f"{instruction}\n\n{_AS_OBJECT}", pa.string(), _parse_object, _OBJECT, max_tokens=1_024)
        return answer.in_parts(instruction, reply=_AS_OBJECT)
    shape: Shape = read_schema(schema)
    reply = f"Answer with JSON that follows this schema: {shape.text}"
    asked = f"{instruction}\n\n{reply}"
    answer = Answer(asked, shape.type, shape.parse, JsonSchema(shape.text), shape.max_tokens, shape.room)
    return answer.in_parts(instruction, reply=reply)


def _parse_object(text: str) -> str:
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object; got {text[:80]!r}")  # noqa: TRY004 - as `Answer.parse` says
    return json.dumps(value, ensure_ascii=False)


def _parse_text(text: str) -> str:
    if not (stripped := text.strip()):
        raise ValueError("expected text, got nothing")
    return stripped


def _options(options: object) -> Mapping[str, Any]:
    """Return the value of each option; the options can have any type, because users' functions call this."""
    if isinstance(options, str) or not isinstance(options, Iterable):
        raise AICallError(f"the options must be a list of texts such as ['yes', 'no'], not {options!r}")
    values = options if isinstance(options, Mapping) else {option: option for option in options}
    if not values:
        raise AICallError("there are no options: pass a list of texts such as ['yes', 'no']")
    for option in values:
        if not isinstance(option, str):
            raise AICallError(f"each option must be a text, not {option!r}; write str({option!r})")
    return values


def _limit(name: str, value: object) -> float:
    """Return a limit of a range, which can have any type, because users' functions call this."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise AICallError(f"{name} must be a number such as 0 or 2.5, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise AICallError(f"{name} must be a finite number, not {excerpt(str(value), 40)}")
    return number


def _one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    """Match an option exactly, or else without regard to case and punctuation around it; never match a part."""
    folded = {_fold(option): value for option, value in values.items()}
    if len(folded) < len(values):
        folded = {}  # options that differ only in case or punctuation must match exactly

    def parse(text: str) -> Any:
        stripped = text.strip()
        if stripped in values:
            return values[stripped]
        if (key := _fold(stripped)) in folded:
            return folded[key]
        raise ValueError(f"expected one of {', '.join(values)}; got {text[:80]!r}")

    return parse


def _fold(text: str) -> str:
    return text.strip(" \t\r\n.!\"'`*").casefold()


def _number_between(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text.strip().removesuffix("."))
        except ValueError:
            value = math.nan
        if not low <= value <= high:  # also true for NaN
            raise ValueError(f"expected a number from {low:g} to {high:g}; got {text[:80]!r}")
        return value

    return parse


def _number_constraint(low: float, high: float) -> Constraint:
    width = high - low
    if low.is_integer() and high.is_integer() and width <= 100:
        if width >= 4:
            return Choice(tuple(str(number) for number in range(int(low), int(high) + 1)))
        return Choice(tuple(f"{tenth / 10:.1f}" for tenth in range(int(low) * 10, int(high) * 10 + 1)))
    if low.is_integer() and high.is_integer():
        return Regex(_numbers(int(low), int(high)))
    digits = len(str(int(max(abs(low), abs(high)))))
    return Regex(f"{'-?' if low < 0 else ''}[0-9]{{1,{digits}}}(\\.[0-9]{{1,4}})?")


def _numbers(low: int, high: int) -> str:
    """Return a pattern that matches exactly the numbers from `low` to `high`, with up to four decimals."""
    decimals = "(\\.[0-9]{1,4})?"
    parts = []
    if high >= 0:
        least = max(low, 0)
        parts += [f"({'|'.join(_whole(least, high - 1))}){decimals}"] if least < high else []
        parts.append(str(high))
    if low < 0:
        least = max(-high, 0)
        parts += [f"-({'|'.join(_whole(least, -low - 1))}){decimals}"] if least < -low else []
        parts.append(str(low))
    return f"({'|'.join(parts)})"


def _whole(low: int, high: int) -> list[str]:
    """Return patterns that match the whole numbers from `low` to `high`; both must be at least 0.

    From 95 to 1000, the patterns are `9[5-9]`, `[1-9][0-9]{2}` and `1000`.
    """
    patterns = []
    while low <= high:
        step, digits = 1, 0
        while low >= 10 * step and low % (10 * step) == 0 and low + 10 * step - 1 <= high:
            step, digits = 10 * step, digits + 1
        head, first = divmod(low // step, 10)
        last = min(9, first + (high + 1 - low) // step - 1)
        chosen = f"[{first}-{last}]" if last > first else str(first)
        patterns.append(f"{head or ''}{chosen}{f'[0-9]{{{digits}}}' if digits else ''}")
        low += (last - first + 1) * step
    return patterns
