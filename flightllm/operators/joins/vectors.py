"""Embed the values of a join into one matrix whose memory is bounded."""

from typing import Final

import numpy as np

from flightllm.errors import EngineError, InternalError
from flightllm.functions.call import EMBEDDING
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
    pairs = oracle.pairs
    ai, runtime = pairs.join.ai, pairs.runtime
    call = embedding_call(ai)
    counters = runtime.proxy_counters(pairs.join.name, call, EMBEDDING)
    counters.add(rows=len(numbers))
    texts: list[Value] = [("\n".join(filter(None, values.found[number])),) for number in numbers.tolist()]
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


def _zeros(rows: int, width: int) -> Vectors:
    if 4 * rows * width <= _SINGLE_BYTES:
        return np.zeros((rows, width), np.float32)
    return np.zeros((rows, width), np.float16)
