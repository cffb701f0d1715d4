"""Sends the first prompt of each group ahead, so that concurrent prompts do not compute the same prefix again."""

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded
from flightllm.prompt_order.sequence import FlatDictionary, Sequence, shared_fields

_FILLED = 0.95
"""The share of the cache that prompts take. Leaders that move one cache too far are computed in vain."""
_LEAST = 2
_SLACK = 4
"""Leaders move this part of the window further. Answers have unequal lengths, so some leaders end late."""


def interleave(encoded: Encoded, draft: Draft, cache: CacheShape) -> Draft:
    """Move the leaders of groups ahead of the running prompts; the other prompts keep their order.

    A leader shares at least one more block with the next prompt than with the previous one. It computes the prefix that
    the following prompts reuse, and it has finished after `cache.running` more requests. The prefix must stay in the
    cache until then. A small cache also holds fewer prompts at once, so fewer requests run. So leaders move less far
    where the running prompts do not fit into the cache. If running prompts share, the order stays.
    """
    if cache.running < _LEAST:
        return draft
    flat = FlatDictionary.of(encoded)
    sequence = flat.sequence(encoded.codes[draft.rows], draft.fields)
    ahead = min(cache.running + cache.running // _SLACK, int(_FILLED * prompts_in(encoded, cache)))
    if ahead < _LEAST:
        return draft
    shared = _shared_tokens(flat, sequence)
    leads = np.append(shared[1:], 0.0) >= shared + cache.block_tokens
    places = np.argsort(np.arange(len(shared)) - ahead * leads, kind="stable")
    return Draft(draft.rows[places], draft.fields[places], draft.method)


def _shared_tokens(flat: FlatDictionary, sequence: Sequence) -> NDArray[np.float64]:
    """Return the tokens of whole fields that each prompt shares with the previous prompt."""
    depth = shared_fields(sequence)
    shared: NDArray[np.float64] = np.zeros(len(sequence), dtype=np.float64)
    for column in range(sequence.shape[1]):
        shared += np.where(depth > column, flat.weights[sequence[:, column]], 0.0)
    return shared


def prompts_in(encoded: Encoded, cache: CacheShape) -> int:
    """Return how many prompts of average length fit into the cache beside their shared parts."""
    rows = len(encoded.codes)
    if cache.blocks is None or not rows:
        return rows
    columns = zip(encoded.codes.T, encoded.weights, encoded.readers, strict=True)
    tokens = sum(readers * float(np.append(weights, 0.0)[codes].sum()) for codes, weights, readers in columns)
    return int(cache.blocks * cache.block_tokens / max(tokens / rows + cache.shared_tokens, 1.0))
