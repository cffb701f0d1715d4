"""Chooses between the rows as given and sorted rows, by the expected savings and the cost of sorting."""

import numpy as np

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.interleave import interleave
from flightllm.prompt_order.sequence import hit_tokens, measured
from flightllm.prompt_order.uniform import as_given, as_written

_TOKEN_SECONDS = 1 / 50_000
"""Prefill of one token on a fast engine; a slower engine saves more with every hit."""
_SORT_SECONDS = 0.5e-6
"""Seconds for each cell of the table, measured on one core."""
_MARGIN = 2.0
"""The least ratio of the savings' upper limit to the cost. It is above 1 because no ordering reaches the limit."""


def auto(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the one of the given and the sorted rows that has the most hits; the fields keep the written order.

    If the order of fields followed from the values, other rows of the query could change a prompt and its answer. So
    only the setting chooses such an order.

    The first test needs only one pass over the values: if even the upper limit of the savings is not worth a sort, the
    given order stays. Then the hits of both orders are predicted. With equal hits, the given order stays.
    """
    given = as_given(encoded)
    if most_tokens(encoded) * _TOKEN_SECONDS < _MARGIN * _SORT_SECONDS * encoded.codes.size:
        return given
    by_rows = measured(encoded, interleave(encoded, as_written(encoded), cache), cache)
    given = measured(encoded, given, cache)
    return max(given, by_rows, key=hit_tokens)


def most_tokens(encoded: Encoded) -> float:
    """Return an upper limit of the tokens that prompts can share in any ordering.

    The limit has two parts. The first is all repetitions of a value. The second is, for each row, the largest overlap
    of one of its values with another value: a prompt shares whole fields and a part of the next field.

    An example: one column, read by one call, with weights of 3 tokens for 'ab' and 4 for 'abc'; the two overlap by 2
    tokens.

    |row|value|repetition|overlap|
    |---|---|---|---|
    |0|'ab'|0|2|
    |1|'ab'|3|2|
    |2|'abc'|0|2|

    The limit is 3 + (2 + 2 + 2) = 9 tokens.
    """
    total, parts = 0.0, np.zeros(len(encoded.codes))
    for column, (weights, readers) in enumerate(zip(encoded.weights, encoded.readers, strict=True)):
        codes = encoded.codes[:, column]
        counts = np.bincount(codes[codes >= 0], minlength=len(weights))
        total += readers * float(np.maximum(counts - 1, 0) @ weights)
        if encoded.overlaps and len(weights):
            overlaps = encoded.overlaps[column]
            either = np.maximum(np.append(0.0, overlaps[1:]), np.append(overlaps[1:], 0.0)) * readers
            parts = np.maximum(parts, np.where(codes < 0, 0.0, either[codes]))
    return total + float(parts.sum())
