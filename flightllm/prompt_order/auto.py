"""Chooses an ordering by its expected savings and by the cost of finding it."""

import numpy as np

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.greedy import greedy
from flightllm.prompt_order.sequence import hit_tokens, measured
from flightllm.prompt_order.uniform import as_given, by_score

_TOKEN_SECONDS = 1 / 50_000
"""Prefill of one token on a fast engine; a slower engine saves more with every hit."""
_SORT_SECONDS = 0.5e-6
_GREEDY_SECONDS = 3e-6
"""Seconds for each cell of the table, measured on one core."""
_MARGIN = 2.0
"""The least ratio of the savings' upper limit to the cost. It is above 1 because no ordering reaches the limit."""


def auto(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the one of the given, the fixed and the greedy order that has the most hits.

    The first test needs only one pass over the values: if even the upper limit of the savings is not worth a sort, the
    given order stays. Then the hits of the given and the fixed order are predicted. The greedy order is tried if the
    savings that are still possible are worth its time. With equal hits, the given order stays.
    """
    cells, bound = encoded.codes.size, most_tokens(encoded)
    given = as_given(encoded)
    if bound * _TOKEN_SECONDS < _MARGIN * _SORT_SECONDS * cells:
        return given
    given, fixed = measured(encoded, given, cache), measured(encoded, by_score(encoded), cache)
    best = max(given, fixed, key=hit_tokens)
    if (bound - hit_tokens(best)) * _TOKEN_SECONDS < _MARGIN * _GREEDY_SECONDS * cells:
        return best
    return max(best, greedy(encoded, cache, fixed), key=hit_tokens)


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
