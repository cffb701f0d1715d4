"""One field order for all tuples: the given order, or the fixed order with the tuples sorted by it.

Source of the score: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821 v1.
"""

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded
from flightllm.prompt_order.sequence import FlatDictionary, sort_rows


def as_given(encoded: Encoded) -> Draft:
    """Keep rows and fields in the given order."""
    rows, columns = encoded.codes.shape
    return Draft(np.arange(rows, dtype=np.int64), _repeat(np.arange(columns, dtype=np.int16), rows), "none")


def by_score(encoded: Encoded) -> Draft:
    """Order the fields by `score_columns`, and sort the rows by them."""
    rows = len(encoded.codes)
    fields = _repeat(score_columns(encoded), rows)
    places = sort_rows(FlatDictionary.of(encoded).sequence(encoded.codes, fields))
    return Draft(places, fields, "fixed")


def score_columns(encoded: Encoded) -> NDArray[np.int16]:
    """Return the columns by descending average tokens × rows / distinct values; ties keep the given order."""
    scores = []
    for column, (weights, readers) in enumerate(zip(encoded.weights, encoded.readers, strict=True)):
        codes = encoded.codes[:, column]
        counts = np.bincount(codes[codes >= 0], minlength=len(weights))
        distinct = max(int(np.count_nonzero(counts)), 1)
        scores.append(float(counts @ weights) * readers / distinct)
    return np.argsort(-np.array(scores), kind="stable").astype(np.int16)


def _repeat(columns: NDArray[np.int16], rows: int) -> NDArray[np.int16]:
    return np.broadcast_to(columns, (rows, len(columns)))
