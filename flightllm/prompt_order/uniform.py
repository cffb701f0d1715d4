"""One field order for all tuples: the given, the written or the fixed order; the last two sort the tuples by it.

Source of the score: Liu et al., "Optimizing LLM Queries in Relational Workloads", arXiv 2403.05821 v1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded
from flightllm.prompt_order.sequence import FlatDictionary, sort_rows


def as_given(encoded: Encoded) -> Draft:
    """Keep rows and fields in the given order."""
    rows, columns = encoded.codes.shape
    return Draft(np.arange(rows, dtype=np.int64), _repeat(np.arange(columns, dtype=np.int16), rows), "none")


def as_written(encoded: Encoded) -> Draft:
    """Sort the rows by the fields as the calls have them.

    For one call, no other order of rows lets neighbours share more. Several calls over different columns need
    different orders: the call with the best first column comes first.
    """
    rows, columns = encoded.codes.shape
    calls = encoded.calls or (tuple(range(columns)),)
    fields = _repeat(np.array(written_columns(calls, score_columns(encoded).tolist()), dtype=np.int16), rows)
    return Draft(sort_rows(FlatDictionary.of(encoded).sequence(encoded.codes, fields)), fields, "rows")


def by_score(encoded: Encoded) -> Draft:
    """Order the fields by `score_columns`, and sort the rows by them."""
    rows = len(encoded.codes)
    fields = _repeat(score_columns(encoded), rows)
    places = sort_rows(FlatDictionary.of(encoded).sequence(encoded.codes, fields))
    return Draft(places, fields, "fixed")


def by_columns(encoded: Encoded, columns: Sequence[int]) -> Draft:
    """Give the fields of all tuples one order, and sort the rows by it."""
    fields = _repeat(np.array(columns, dtype=np.int16), len(encoded.codes))
    return Draft(sort_rows(FlatDictionary.of(encoded).sequence(encoded.codes, fields)), fields, "fixed")


def score_columns(encoded: Encoded) -> NDArray[np.int16]:
    """Return the columns by descending average tokens × rows / distinct values; ties keep the given order."""
    scores = []
    for column, (weights, readers) in enumerate(zip(encoded.weights, encoded.readers, strict=True)):
        codes = encoded.codes[:, column]
        counts = np.bincount(codes[codes >= 0], minlength=len(weights))
        distinct = max(int(np.count_nonzero(counts)), 1)
        scores.append(float(counts @ weights) * readers / distinct)
    return np.argsort(-np.array(scores), kind="stable").astype(np.int16)


def written_columns(calls: Sequence[Sequence[int]], ranked: Sequence[int]) -> tuple[int, ...]:
    """Return all columns, call by call in the written order; first the call whose first column is first in `ranked`.

    Example: calls with the columns (0, 1) and (2, 1), and a rank of [2, 0, 1], give (2, 1, 0).
    """
    rank = {column: place for place, column in enumerate(ranked)}
    ordered = sorted((call for call in calls if call), key=lambda call: rank[call[0]])
    return tuple(dict.fromkeys([*(column for call in ordered for column in call), *ranked]))


def _repeat(columns: NDArray[np.int16], rows: int) -> NDArray[np.int16]:
    return np.broadcast_to(columns, (rows, len(columns)))
