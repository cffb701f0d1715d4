"""Embed the values of a join into one matrix whose memory is bounded."""

from typing import Final

import numpy as np

from flightllm.errors import EngineError, InternalError
from flightllm.functions.call import EMBEDDING, AICall
from flightllm.observe.query_record import CallRecord
from flightllm.operators.embedding_proxy import embedding_call
from flightllm.operators.joins.asked import PairOracle, replied
from flightllm.operators.joins.near import Vectors
from flightllm.operators.joins.values import Ints, Value, Values

_SINGLE_BYTES: Final = 1 << 28
"""Larger matrices have numbers of half the size: they only order the pairs, and a proof follows."""
_FIRST: Final = 16
"""So many texts are tried first: a model that refuses all of them gets no others."""


def vectors_of(numbers: Ints, values: Values, oracle: PairOracle) -> Vectors:
    """Return the vectors of some values by number, with length 1; other values, and those without a vector, have zeros.

    Equal texts are embedded once.

    Raises:
        MissingExtraError: the extra of the embedding model is not installed.
        ConfigError: the embedding model cannot be loaded.
        EngineError: the embedding model is gone, or returns no vector at all.
        CancelledError: the query was cancelled.
    """
    ai, runtime = oracle.pairs.join.ai, oracle.pairs.runtime
    call, counters = _site(oracle)
    counters.add(rows=len(numbers))
    texts: list[Value] = [(_text(values, number),) for number in numbers.tolist()]
    vectors: Vectors | None = None
    reason = "it returned nothing"
    for start, end in ((0, _FIRST), (_FIRST, len(texts))):
        for place, reply in replied(call, texts[start:end], runtime, counters):
            found, error = (reply["value"], reply["error"]) if isinstance(reply, dict) else (reply, None)
            if found is None:
                reason = error or reason
                continue
            vector = np.asarray(found, np.float32)
            if vectors is None:
                vectors = _zeros(len(values.found), len(vector))
            if len(vector) == vectors.shape[1]:
                vectors[numbers[start + place]] = vector / (float(np.linalg.norm(vector)) or 1.0)
        if vectors is None:
            raise EngineError(f"{ai.text}: the embedding model returned no vector: {reason}")
    if vectors is None:
        raise InternalError("a join has values on both sides")
    return vectors


def count_texts(numbers: Ints, values: Values, oracle: PairOracle) -> None:
    """Count the texts of a dry run that embeds none of them, with four characters for each token."""
    _, counters = _site(oracle)
    count, tokens = len(numbers), sum(len(_text(values, number)) // 4 for number in numbers.tolist())
    counters.note(count, count)
    counters.add(rows=count, distinct_prompts=count, calls=count, prompt_tokens=tokens)


def _site(oracle: PairOracle) -> tuple[AICall, CallRecord]:
    call = embedding_call(oracle.pairs.join.ai)
    return call, oracle.pairs.runtime.proxy_counters(oracle.pairs.join.name, call, EMBEDDING)


def _text(values: Values, number: int) -> str:
    return "\n".join(filter(None, values.found[number]))


def _zeros(rows: int, width: int) -> Vectors:
    if 4 * rows * width <= _SINGLE_BYTES:
        return np.zeros((rows, width), np.float32)
    return np.zeros((rows, width), np.float16)
