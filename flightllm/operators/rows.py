"""Select the values of a row that are sent, and turn its answer into a SQL value.

AI operators and batch functions both use this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from flightllm.common.newest import Newest
from flightllm.common.text import well_formed, well_formed_value
from flightllm.errors import AnswerError
from flightllm.functions.call import ELEMENT_END, ERROR_FIELDS, AICall
from flightllm.functions.confidence import answer_alone, joined
from flightllm.llm.engine import Choice, Completion, JsonSchema

Named: TypeAlias = tuple[str, int, bool, bool]
"""A field's name and place in a tuple, whether it must be given, and whether its value is a list."""

_ALWAYS: dict[pa.DataType, tuple[type, ...]] = {pa.bool_(): (bool,), pa.float64(): (float,)}
"""The Python types that columns of a type take unchanged."""
_KEPT_READINGS, _KEPT_TEXT = 256, 256
"""The most readings that a reader keeps, and the most characters of their texts."""
_MOST_TOKENS = 131_072
"""The largest `max_tokens` that a call can have."""


@dataclass(frozen=True, slots=True)
class Response:
    """A model's response to one prompt: a text, or an error. `cut` is the token limit, if that ended the text."""

    text: str | None
    error: str | None = None
    cut: int | None = None
    early: bool = False
    """The text ended long before the limit: the model's context was full, or the endpoint has its own limit."""
    too_long: bool = False
    """The prompt failed because the model's context has no room for it."""

    @classmethod
    def of(cls, call: AICall, completion: Completion, max_tokens: int) -> "Response":
        """Read a completion of a request with this token limit, with its probabilities if the call asks for them."""
        text, error = completion.text, completion.error
        if text is not None and error is None:
            if completion.refusal and not text.strip():
                error = f"the model refused: {completion.refusal}"
            elif completion.finish_reason == "content_filter":
                error = "a content filter stopped the answer"
        if text is None or error is not None:
            return cls(None, well_formed(error or "no answer"), too_long=completion.too_long)
        text = well_formed(text)
        if call.parameters.probability:
            text = joined(text, completion.probabilities)
        if not completion.partial:
            return cls(text)
        return cls(text, None, max_tokens, early=0 < completion.completion_tokens < max_tokens // 2)


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of an answer, or the failure of the prompt or of reading its answer."""

    value: Any
    failure: str | None = None
    fault: str | None = None
    """The reason why an answer is unusable, in words for the model; None where asking again cannot help."""


class Counters(Protocol):
    """A sink for a call site's figures."""

    def note(self, input_rows: int, tuples: int, **notes: str) -> None:
        """Add rows and tuples of arguments that the operator has to process, and note how their prompts are made."""

    def add(self, **deltas: int) -> None:
        """Add to the named counters."""

    def sent(self, *, repair: bool) -> None:
        """Count a prompt that is sent: `repair` if it asks again."""

    def received(self, completion: Completion, seconds: float) -> None:
        """Count an answer, its tokens, and the seconds from its prompt to the answer."""


def given_fields(named: Sequence[Named], values: tuple[str | None, ...]) -> list[tuple[str, str]] | None:
    """Return the named values of one row that are not NULL, or None if its answer is NULL without a call.

    The elements of a list become fields of the same name, in the order of the texts. So lists of the same elements make
    the same prompt.
    """
    given = [(name, value, many) for name, at, _, many in named if (value := values[at]) is not None]
    if len(given) == 1 and len(named) == 1 and not given[0][2]:
        return [given[0][:2]]
    if len(given) < len(named) and (not given or any(must and values[at] is None for _, at, must, _ in named)):
        return None
    return [(name, one) for name, value, many in given for one in (sorted_elements(value) if many else (value,))]


def sorted_elements(text: str) -> list[str]:
    """Return the elements of a list that is passed as one text, in the order of the texts."""
    return sorted(text.split(ELEMENT_END))


class AnswerReader:
    """Read the answers of one call. One thread uses it.

    Thousands of prompts get the same few answers where the model must choose one of some options. So the reader keeps
    the readings of such answers. It forgets a defect of the call's `parse`, which can happen once only.
    """

    def __init__(self, call: AICall) -> None:
        self._call = call
        choice = isinstance(call.parameters.constraint, Choice) and not call.parameters.probability
        self._keeps = choice and not pa.types.is_nested(call.output)  # a nested value could be changed by its user
        self._known = Newest[str, tuple[Response, Reading]](_KEPT_READINGS)

    def read(self, completion: Completion, max_tokens: int) -> tuple[Response, Reading]:
        """Return a model's response to a request that allowed `max_tokens`, and its reading."""
        text = completion.text
        plain = completion.error is None and completion.refusal is None and completion.finish_reason == "stop"
        if plain and text is not None and (known := self._known.get(text)) is not None:
            return known
        response = Response.of(self._call, completion, max_tokens)
        reading = read_answer(self._call, response)
        found = response, reading
        of_answer = reading.failure is None or reading.fault is not None
        if of_answer and plain and text is not None and self._keeps and len(text) <= _KEPT_TEXT:
            self._known[text] = found
        return found


def read_answer(call: AICall, response: Response) -> Reading:
    """Return the value of an answer, or its failure.

    For any engine and function, a column of the call's type can hold the value. A text that the token limit cut is a
    failure, with two exceptions: the call keeps cut texts, or nothing can follow in an answer of the call's kind.
    """
    if response.text is None:
        return Reading(None, response.error or "no answer")
    reading = _read(call, response.text)
    if response.cut is None:
        return reading
    constraint = call.parameters.constraint
    if reading.failure is None and (call.on_truncated == "keep" or _is_whole(call, response.text)):
        return reading
    if response.early:
        before = f"before its limit of {response.cut:,} tokens, at the model's own"
        cut = f"the answer was cut {before}: give the call less text"
    else:
        more = min(2 * response.cut, _MOST_TOKENS)
        cut = f"the answer was cut at its limit of {response.cut:,} tokens: write max_tokens => {more}"
    if constraint is None:
        keep = "" if reading.failure is not None else ", or on_truncated => 'keep' for the part that there is"
        return Reading(None, cut + keep)
    wrong = "" if reading.failure is None else f"{reading.failure}; "
    return Reading(None, wrong + cut, "it is too long, and was cut before its end")


def _is_whole(call: AICall, text: str) -> bool:
    """Return whether a cut but readable text is a whole answer.

    A number never is: `1` can be the start of `10`, and `7` that of `7.5`. An option is whole in its own spelling, if
    no other option begins with it. JSON is whole if it ends with a bracket.
    """
    if call.parameters.probability:
        text = answer_alone(text)
    text = text.strip()
    match call.parameters.constraint:
        case Choice(options):
            begun = [option for option in options if option.startswith(text)]
            return begun == [text] and not pa.types.is_floating(_answer_type(call))
        case JsonSchema():
            return text.removesuffix("```").rstrip().endswith(("}", "]"))
        case _:
            return False


def _answer_type(call: AICall) -> pa.DataType:
    """Return the type of the answer itself, without its probability."""
    with_confidence = call.parameters.probability and pa.types.is_struct(call.output)
    return call.output.field("answer").type if with_confidence else call.output


def _read(call: AICall, text: str) -> Reading:
    try:
        value = call.parse(text)
    except ValueError as unparsed:
        return Reading(None, fault := well_formed(str(unparsed)), fault)
    except Exception as defect:  # noqa: BLE001 - a function's file can be a user's own; its defects fail only one row
        return Reading(None, well_formed(f"{call.function}'s parse failed with {type(defect).__name__}: {defect}"))
    return Reading(*fitted(call, value))


def fitted(call: AICall, value: Any) -> tuple[Any, str | None]:
    """Return a parsed value with well-formed texts and None, or None and why a column of the call's type rejects it."""
    if value is None or type(value) in _ALWAYS.get(call.output, ()):
        return value, None
    if isinstance(value, np.ndarray) and value.ndim == 1 and pa.list_(pa.from_numpy_dtype(value.dtype)) == call.output:
        return value, None
    if type(value) is str and pa.types.is_string(call.output):
        return well_formed(value), None
    try:
        value = well_formed_value(value)
        pa.scalar(value, type=call.output)
    except Exception as misfit:  # noqa: BLE001 - Arrow refuses values in many ways
        return None, well_formed(f"{call.function}'s value is not a {call.output}: {misfit}")
    return value, None


def answer_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column. The fields of a NULL struct are NULL, because DataFusion reads them directly."""
    if not pa.types.is_struct(kind):
        return pa.array(values, type=kind)
    fields = [answer_column([None if v is None else v.get(f.name) for v in values], f.type) for f in kind]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array([v is None for v in values], pa.bool_()))


def sql_value(call: AICall, value: Any, failure: str | None) -> Any:
    """Return the row's value for an answer, or for a failure, as `on_error` says.

    Raises:
        AnswerError: the call failed and `on_error` is 'fail'.
    """
    if failure is not None and call.on_error == "fail":
        raise AnswerError(f"{call.text}: {failure} (on_error => 'null' gives NULL instead)")
    if (names := ERROR_FIELDS.get(call.on_error)) is not None:
        return {names[0]: value, names[1]: failure}
    return value
