"""Predicts how many tokens of an ordering's fields a prefix cache serves, without sending any prompt."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded, Ordering
from flightllm.prompt_order.sequence import FlatDictionary, Sequence, shared_fields, sort_rows


def finish(encoded: Encoded, draft: Draft, cache: CacheShape) -> Ordering:
    """Number the field orders of `draft` and predict its hits."""
    hits, total = draft.tokens or predict(encoded, draft, cache)
    patterns, pattern = _patterns(draft.fields)
    return Ordering(draft.rows, patterns, pattern, draft.method, hits, total)


def measured(encoded: Encoded, draft: Draft, cache: CacheShape) -> Draft:
    """Return `draft` with its tokens predicted."""
    return replace(draft, tokens=predict(encoded, draft, cache))


def hit_tokens(draft: Draft) -> float:
    """Return the predicted hits of a draft; 0 if they were not predicted."""
    return draft.tokens[0] if draft.tokens else 0.0


def predict(encoded: Encoded, draft: Draft, cache: CacheShape) -> tuple[float, float]:
    """Return the field tokens that `cache` serves, beyond the instruction's whole blocks, and all field tokens.

    The function follows every prefix from prompt to prompt. A finite cache serves a prefix again only within a window
    of requests: as many as have distinct tokens that fill the cache. Denning's working-set relation gives the window:
    each further request adds the tokens that it misses ("The Working Set Model", 1968).
    """
    flat = FlatDictionary.of(encoded)
    sequence = flat.sequence(encoded.codes[draft.rows], draft.fields)
    total = float(flat.weights[sequence].sum())
    if not len(sequence):
        return 0.0, total
    served, gaps = _reuse(flat, sequence, cache)
    if cache.blocks is None:
        return float(served.sum()), total
    prompts = len(sequence)
    missed = float(_round(total / prompts + cache.shared_tokens, cache) - _round(cache.shared_tokens, cache))
    by_gap = np.bincount(gaps, weights=served, minlength=prompts) / prompts
    misses = missed - np.cumsum(by_gap)
    room = cache.blocks * cache.block_tokens - cache.shared_tokens
    window = int(np.searchsorted(np.cumsum(np.maximum(misses, 0.0)), room))
    return float(by_gap[: window + 1].sum() * prompts), total


def _reuse(
    flat: FlatDictionary, sequence: Sequence, cache: CacheShape
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return for each repetition of a prefix the tokens of its last field, and the number of requests in between.

    `sequence` is in sending order.
    """
    places = sort_rows(sequence)
    inorder = sequence[places]
    depth = shared_fields(inorder)
    reach = np.zeros(len(sequence))
    base = _round(reach + cache.shared_tokens, cache)
    served, gaps = [], []
    for column in range(sequence.shape[1]):
        longer = reach + flat.weights[inorder[:, column]]
        block = _round(longer + cache.shared_tokens, cache)
        group = np.cumsum(depth <= column)
        # Rows with equal prefixes are neighbours, but they are sorted by their later fields, not in sending order.
        resorted = places if column + 1 == sequence.shape[1] else places[np.lexsort((places, group))]
        again = np.flatnonzero(group[1:] == group[:-1]) + 1
        served.append((block - base)[again])
        gaps.append(resorted[again] - resorted[again - 1])
        reach, base = longer, block
    tokens = np.concatenate([*served, _parts(flat, inorder, depth, cache)])
    return tokens, np.concatenate([*gaps, np.abs(np.diff(places, prepend=places[0]))])


def _parts(flat: FlatDictionary, inorder: Sequence, depth: NDArray[np.int64], cache: CacheShape) -> NDArray[np.float64]:
    """Return the tokens shared in the first unequal field of each prompt and the previous prompt in sorted order."""
    here = np.flatnonzero(depth < inorder.shape[1])
    here = here[here > 0]
    at = depth[here]
    part = flat.partial(inorder[here - 1, at], inorder[here, at])
    cumulative = np.cumsum(flat.weights[inorder[here]], axis=1)
    before = np.where(at > 0, cumulative[np.arange(len(here)), at - 1], 0.0) + cache.shared_tokens
    found = np.zeros(len(inorder))
    found[here] = _round(before + part, cache) - _round(before, cache)
    return found


def _round(tokens: NDArray[np.float64] | float, cache: CacheShape) -> NDArray[np.float64]:
    if cache.block_tokens <= 1:
        return np.asarray(tokens)
    return np.floor(np.asarray(tokens) / cache.block_tokens + 1e-9) * cache.block_tokens


def _patterns(fields: NDArray[np.int16]) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.int32]]:
    """Return the distinct rows of `fields`, and for each row the index of its distinct row."""
    rows, columns = fields.shape
    if rows and fields.strides[0] == 0:
        return (tuple(fields[0].tolist()),), np.zeros(rows, dtype=np.int32)
    opaque = np.ascontiguousarray(fields).view(np.dtype((np.void, 2 * columns))).reshape(rows)
    _, first, pattern = np.unique(opaque, return_index=True, return_inverse=True)
    return tuple(tuple(row) for row in fields[first].tolist()), pattern.astype(np.int32)
