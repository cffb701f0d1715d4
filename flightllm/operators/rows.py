"""What both ways of running a call share: which values of a row are sent, and what its answer becomes."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from flightllm.ai import ELEMENT_END, AICall
from flightllm.errors import EngineError
from flightllm.functions.confidence import join_confidence
from flightllm.llm.base import Completion
from flightllm.texts import well_formed, well_formed_value

Named: TypeAlias = tuple[str, int, bool, bool]
"""A field's name and place in a tuple, whether it must be given, and whether its value is a list."""

_ALWAYS: dict[pa.DataType, tuple[type, ...]] = {pa.bool_(): (bool,), pa.float64(): (float,)}
"""What columns of a type take as it is."""


class Counters(Protocol):
    """Where a call site's figures go."""

    def add(self, **deltas: int) -> None:
        """Add to the named counters."""


def given_fields(named: Sequence[Named], values: tuple[str | None, ...]) -> list[tuple[str, str]] | None:
    """Return the named values of one row that are not NULL, or None where the row is answered NULL without a call.

    The elements of a list become fields of the same name.
    """
    given = [(name, value, many) for name, at, _, many in named if (value := values[at]) is not None]
    if len(given) < len(named) and (not given or any(must and values[at] is None for _, at, must, _ in named)):
        return None
    return [(name, one) for name, value, many in given for one in (value.split(ELEMENT_END) if many else (value,))]


def answer_text(call: AICall, completion: Completion) -> str | None:
    """Return the text that is kept, shared and read of a completion: with its probability if the call asks for it."""
    if completion.text is None:
        return None
    text = well_formed(completion.text)
    return join_confidence(text, completion.confidence) if call.parameters.probability else text


def read_answer(call: AICall, text: str | None, error: str | None, *, partial: bool = False) -> tuple[Any, str | None]:
    """Return the value of an answer and None, or None and what failed: the prompt, or reading its answer.

    Whatever engine and function gave it, the value is one that a column of the call's type takes. What was read of a
    `partial` text is the value where it can be read.
    """
    value, failure = _read(call, text, error)
    if partial and failure is not None:
        failure += f" (the answer was cut short at max_tokens => {call.parameters.max_tokens})"
    return value, failure


def _read(call: AICall, text: str | None, error: str | None) -> tuple[Any, str | None]:
    if text is None:
        return None, well_formed(error or "no answer")
    try:
        value = call.parse(well_formed(text))
    except ValueError as unparsed:
        return None, well_formed(str(unparsed))
    except Exception as defect:  # noqa: BLE001 - a function's file may be a user's own; its defects cost no other row
        return None, well_formed(f"{call.function}'s parse failed with {type(defect).__name__}: {defect}")
    return fitted(call, value)


def fitted(call: AICall, value: Any) -> tuple[Any, str | None]:
    """Return a parsed value with well-formed texts and None, or None and why no column of the call's type takes it."""
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
        return None, well_formed(f"{call.function}'s value is no {call.output}: {misfit}")
    return value, None


def answer_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column. The fields of a NULL struct are NULL: DataFusion reads them without the struct."""
    if not pa.types.is_struct(kind):
        return pa.array(values, type=kind)
    fields = [answer_column([None if v is None else v.get(f.name) for v in values], f.type) for f in kind]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array([v is None for v in values], pa.bool_()))


def sql_value(call: AICall, value: Any, failure: str | None) -> Any:
    """Return what a row gets for an answer read, or for a failure as `on_error` has it.

    Raises:
        EngineError: it failed and `on_error` is 'fail'.
    """
    if failure is not None and call.on_error == "fail":
        raise EngineError(f"{call.text}: {failure} (on_error => 'null' answers NULL instead)")
    return {"value": value, "error": failure} if call.on_error == "struct" else value
