"""Choose an ordering by what it is expected to save and what it costs to find."""

import numpy as np

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.greedy import greedy
from flightllm.prompt_order.measure import hit_tokens, measured
from flightllm.prompt_order.uniform import as_given, by_score

_TOKEN_SECONDS = 1 / 50_000
"""Prefill of one token on a fast engine: a slower one saves more by every hit."""
_SORT_SECONDS = 0.5e-6
_GREEDY_SECONDS = 3e-6
"""For each cell of the table, measured on one core."""
_MARGIN = 2.0
"""How often the bound on the savings must cover the cost: no ordering reaches the bound."""


def auto(encoded: Encoded, cache: CacheShape) -> Draft:
    """Return the given order, v1's or the greedy one.

    First from a bound that costs one pass: where even that is not worth a sort, the given order stays. Then, with the
    hits of the given order and v1's known, the greedy one is tried if what is left of the bound is worth it. Equal hits
    keep the given order.
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
    """Return a bound on the tokens that any ordering shares.

    All repeated values but the first of each kind, and for each row the most that one of its values has in common with
    another one: a prompt shares whole fields and a part of the next.
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
