"""The functions that decide by a fit to labels; only texts that the server writes call them."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flightllm.errors import AICallError, SqlError
from flightllm.functions.base import TARGETS, ScalarFunction
from flightllm.functions.call import ERROR_FIELDS, AICall, name_stub
from flightllm.functions.confidence import all_known, split
from flightllm.learning.learned import KINDS, Floats, Kind, LateFit, Learned, Rows, found, read
from flightllm.llm.engine import Choice

PROBABILITIES: Final = pa.list_(pa.float64())
VECTOR: Final = pa.list_(pa.float32())
_OUTPUTS: Final[dict[Kind, pa.DataType]] = {"filter": pa.bool_(), "label": pa.string(), "score": pa.float64()}

_LEARNS: Final[dict[str, Kind]] = {"ai_filter": "filter", "ai_classify": "label", "ai_score": "score"}


def decision(kind: Kind) -> str:
    """Return the name of the function that decides answers of a kind."""
    return f"__learned_{kind}"


def kind_of(call: AICall) -> Kind:
    """Return the kind of answers of a call, from which a filter can be learned.

    Raises:
        AICallError: its answers are something else, such as free texts, or it has targets of a cascade.
    """
    if call.promise is not None:
        raise AICallError(_promised(call))
    choice = isinstance(call.parameters.constraint, Choice) and call.on_error not in ERROR_FIELDS and call.fields
    if choice and call.function in _LEARNS and call.output == _OUTPUTS[_LEARNS[call.function]]:
        return _LEARNS[call.function]
    if call.function not in _LEARNS:
        raise AICallError(f"labels cannot teach {call.function}: write a call of ai_filter, ai_classify or ai_score")
    raise AICallError(
        f"a filter learns from one call of ai_filter, ai_classify or ai_score with fields, not from {call.text}: leave"
        " out confidence => true, multi => true and on_error => 'struct', and write a range of at most 100 numbers"
    )


def _promised(call: AICall) -> str:
    """Return the error for a call that has targets of a cascade, where labels decide."""
    targets = {name: getattr(call.promise, name) for name in TARGETS}
    given = {name: value for name, value in targets.items() if value is not None}
    told = (
        f"labels and {' or '.join(given)} => cannot be combined in a call, because the fit to the labels decides in"
        " place of a proxy: leave out the proxy and its targets"
    )
    if call.function == "ai_score":
        return told
    options = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    return f"{told}. For figures that the labels certify, write CREATE FILTER name AS … FIT ON … WITH ({options})"


def options_of(call: AICall) -> tuple[str, ...]:
    """Return the texts of a call's options."""
    constraint = call.parameters.constraint
    return tuple(constraint.options) if isinstance(constraint, Choice) else ()


def question_of(call: AICall) -> str:
    """Return a text for a question, its fields and its answers, whatever the names of the filter and the model."""
    asked = (call.function, call.task or call.instruction, *call.fields, "", *sorted(options_of(call)))
    parts = "\x1f".join(asked)
    return blake2b(parts.encode(errors="replace"), digest_size=16).hexdigest()


def with_probabilities(call: AICall) -> AICall:
    """Return a call whose answers are `struct<answer, probabilities>`; unknown probabilities are an empty list."""
    count = len(options_of(call))

    def parse(text: str) -> dict[str, Any]:
        answer, probabilities = split(text)
        value = call.parse(text if call.parameters.probability else answer)
        return {"answer": value, "probabilities": list(probabilities) if all_known(probabilities, count) else []}

    output = pa.struct([("answer", call.output), ("probabilities", PROBABILITIES)])
    parameters = replace(call.parameters, probability=True)
    return name_stub(
        replace(call, parse=parse, output=output, parameters=parameters, reading=f"{call.reading} learned".lstrip())
    )


def matrix(lists: pa.Array, width: int) -> Floats:
    """Return lists as the lines of a matrix; NaN where a list is NULL or has another length."""
    found_ = np.full((len(lists), width), np.nan)
    if not width:
        return found_
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    lengths = np.asarray(lists.value_lengths().fill_null(-1))
    right = lengths == width
    if right.any():
        kept = lists.filter(pa.array(right))
        found_[right] = np.asarray(kept.flatten().cast(pa.float64())).reshape(-1, width)
    return found_


def decide(kind: Kind) -> Callable[..., pa.Array]:
    """Return the function from fit ids, the model's answers, probabilities and vectors to answers."""

    def decided(ids: pa.Array, answers: pa.Array, probabilities: pa.Array, vectors: pa.Array) -> pa.Array:
        if not len(ids):
            return pa.array([], _OUTPUTS[kind])
        try:
            learned: Learned | LateFit | None = found(ids[0].as_py())
        except KeyError as error:  # a client's own call
            raise SqlError(f"{decision(kind)} decides only for the server: call a filter by its name") from error
        learned = learned.fit if isinstance(learned, LateFit) else learned
        if learned is None:  # a prediction, which asks no model for the fit
            return pa.array([read(kind, one) for one in answers.to_pylist()], _OUTPUTS[kind])
        rows = features_of(learned, probabilities, vectors)
        made = learned.decided(rows, answers.to_pylist())
        return pa.array(made, _OUTPUTS[kind])

    return decided


def features_of(learned: Learned, probabilities: pa.Array, vectors: pa.Array) -> Rows:
    """Return the features of rows as a fit takes them."""
    asks = "model" in learned.features
    options = len(learned.options) if asks else 0
    model_width = {"filter": 1, "label": len(learned.options), "score": 1}[learned.kind] if asks else 0
    return Rows(matrix(probabilities, options), matrix(vectors, learned.weights.shape[1] - model_width))


def _function(kind: Kind) -> ScalarFunction:
    return ScalarFunction(
        name=decision(kind),
        summary="Decide by a fit to labels.",
        returns=str(_OUTPUTS[kind]),
        arguments=(pa.string(), pa.string(), PROBABILITIES, VECTOR),
        output=_OUTPUTS[kind],
        bind=lambda _: decide(kind),
    )


DECISIONS: Final = tuple(map(_function, KINDS))
"""They run in this process, which holds the fits, also for queries in other processes."""
