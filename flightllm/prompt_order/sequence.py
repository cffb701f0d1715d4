"""Prompts as sequences of numbers, from which the hits of a prefix cache are predicted without sending a prompt.

A number stands for a column and a value, so equal prompts have equal sequences.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import CacheShape, Draft, Encoded, Ordering
from flightllm.prompt_order.range_minimum import RangeMinimum

Sequence = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FlatDictionary:
    """One numbering for the values of all columns. Number 0 is NULL, which a prompt leaves out.

    An example: column 0 has the values 'a' and 'b', column 1 has the value 'x'.

    |number|column|value|
    |---|---|---|
    |0| |NULL|
    |1|0|'a'|
    |2|0|'b'|
    |3|1|'x'|

    `offsets` is [1, 3, 4]. The row (code 1, code 0) has the sequence [2, 3], and (NULL, code 0) has [3, 0].
    """

    offsets: NDArray[np.int64]
    """The number of each column's first value, and finally one past the last number."""
    weights: NDArray[np.float64]
    """For each number: the value's tokens, multiplied by the number of calls that read the column."""
    overlaps: NDArray[np.float64] | None
    """For each number: the tokens that the value shares with the previous value, multiplied in the same way.

    The first value of a column has 0.
    """

    @classmethod
    def of(cls, encoded: Encoded) -> Self:
        """Number the values of `encoded`, column after column."""
        offsets = np.cumsum([1, *(len(weights) for weights in encoded.weights)], dtype=np.int64)
        weights = _join(encoded.weights, encoded.readers)
        overlaps = _join(encoded.overlaps, encoded.readers) if encoded.overlaps else None
        if overlaps is not None:
            overlaps[offsets[:-1][offsets[:-1] < len(overlaps)]] = 0.0
        return cls(offsets, weights, overlaps)

    def sequence(self, codes: NDArray[np.int32], fields: NDArray[np.int16]) -> Sequence:
        """Return the numbers of each row's fields in prompt order, without NULLs, filled with zeros at the end.

        `codes` and `fields` are n × k; row i of both arrays describes tuple i.
        """
        placed = np.take_along_axis(codes, fields.astype(np.int64), axis=1)
        missing = placed < 0
        numbers = np.where(missing, 0, placed + self.offsets[fields])
        if missing.any():
            shift = np.argsort(missing, axis=1, kind="stable")
            numbers = np.take_along_axis(numbers, shift, axis=1)
        return numbers

    def partial(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how many tokens each pair of numbers shares: 0 if its columns differ or no overlaps are known.

        The values are sorted. So two values share the smallest overlap of all neighbours between them.
        """
        found = np.zeros(len(left))
        if self.overlaps is None or not len(left):
            return found
        low, high = np.minimum(left, right), np.maximum(left, right)
        same = (low > 0) & (low < high)
        same &= np.searchsorted(self.offsets, low, "right") == np.searchsorted(self.offsets, high, "right")
        asked = np.flatnonzero(same)
        found[asked] = RangeMinimum(self.overlaps).between(low[asked], high[asked])
        return found


def sort_rows(sequence: Sequence) -> NDArray[np.int64]:
    """Return the positions of the rows of `sequence` in lexicographic order; equal rows keep their order."""
    places: NDArray[np.int64] = np.lexsort(sequence.T[::-1]).astype(np.int64, copy=False)
    return places


def shared_fields(sequence: Sequence) -> NDArray[np.int64]:
    """Return how many leading numbers each row shares with the previous row; 0 for the first row."""
    depth = np.zeros(len(sequence), dtype=np.int64)
    agree = np.ones(max(len(sequence) - 1, 0), dtype=bool)
    for column in range(sequence.shape[1]):
        agree &= sequence[1:, column] == sequence[:-1, column]
        depth[1:] += agree
    return depth


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
    missed = float(
        whole_blocks(total / prompts + cache.shared_tokens, cache) - whole_blocks(cache.shared_tokens, cache)
    )
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
    base = whole_blocks(reach + cache.shared_tokens, cache)
    served, gaps = [], []
    waits = places.copy()
    """In sorted order: the requests since the first prompt with the same fields before the first unequal one."""
    for column in range(sequence.shape[1]):
        longer = reach + flat.weights[inorder[:, column]]
        block = whole_blocks(longer + cache.shared_tokens, cache)
        group = np.cumsum(depth <= column)
        # Rows with equal prefixes are neighbours, but they are sorted by their later fields, not in sending order.
        resorted = places if column + 1 == sequence.shape[1] else places[np.lexsort((places, group))]
        again = np.flatnonzero(group[1:] == group[:-1]) + 1
        if cache.running:
            first = resorted[np.flatnonzero(np.diff(group, prepend=-1))][group - group[0]]
            waits = np.where(depth == column + 1, places - first, waits)
            again = again[(resorted - first)[again] >= cache.running]
        served.append((block - base)[again])
        gaps.append(resorted[again] - resorted[again - 1])
        reach, base = longer, block
    tokens = np.concatenate([*served, _parts(flat, inorder, depth, cache) * (waits >= cache.running)])
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
    found[here] = whole_blocks(before + part, cache) - whole_blocks(before, cache)
    return found


def whole_blocks(tokens: NDArray[np.float64] | float, cache: CacheShape) -> NDArray[np.float64]:
    """Return how many tokens of a shared prefix the cache serves: whole blocks, and 0 below its floor."""
    given = np.asarray(tokens)
    kept = given if cache.floor_tokens == 0 else np.where(given < cache.floor_tokens, 0.0, given)
    if cache.block_tokens <= 1:
        return kept
    return np.floor(kept / cache.block_tokens + 1e-9) * cache.block_tokens


def _patterns(fields: NDArray[np.int16]) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.int32]]:
    """Return the distinct rows of `fields`, and for each row the index of its distinct row."""
    rows, columns = fields.shape
    if rows and fields.strides[0] == 0:
        return (tuple(fields[0].tolist()),), np.zeros(rows, dtype=np.int32)
    opaque = np.ascontiguousarray(fields).view(np.dtype((np.void, 2 * columns))).reshape(rows)
    _, first, pattern = np.unique(opaque, return_index=True, return_inverse=True)
    return tuple(tuple(row) for row in fields[first].tolist()), pattern.astype(np.int32)


def _join(parts: tuple[NDArray[np.float64], ...], readers: tuple[int, ...]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(1), *(part * times for part, times in zip(parts, readers, strict=True))])
