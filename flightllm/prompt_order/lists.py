"""Lists whose elements can be in any order: orderings see each common element as a column.

A row without the element has NULL in that column, and NULL takes no place in a prompt. So an ordering of fields also
orders the elements.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded

_CELLS = 20_000_000
"""The most cells of the spread rows. Elements that save too little stay in the list's own columns."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Rows in which common elements have their own columns, and the original column of each value."""

    encoded: Encoded
    source: NDArray[np.int16]


def spread(encoded: Encoded) -> Spread:
    """Give each element that several rows share its own column, after the existing columns.

    Other elements stay in their columns, and so do further occurrences of an element in the same row.

    An example: the columns 0 and 1 hold a list, with 'x' in all rows, and 'y' and 'z' in one row each.

    |row|columns before|columns after|source of column 2|
    |---|---|---|---|
    |0|x, y|NULL, y, x|0|
    |1|z, x|z, NULL, x|1|
    |2|x, NULL|NULL, NULL, x|0|
    """
    codes = encoded.codes.copy()
    columns: list[NDArray[np.int32]] = []
    sources = [np.broadcast_to(np.arange(codes.shape[1], dtype=np.int16), codes.shape)]
    weights, readers, overlaps = list(encoded.weights), list(encoded.readers), list(encoded.overlaps)
    room = max(0, _CELLS // max(1, len(codes)) - codes.shape[1])
    for group in encoded.lists:
        own = codes[:, list(group)]
        repeated = _repeated(own)
        tokens = encoded.weights[group[0]]
        count = np.bincount(own[(own >= 0) & ~repeated], minlength=len(tokens))
        gain = tokens * (count - 1)
        common = np.argsort(-gain, kind="stable")[: min(room, int((gain > 0).sum()))]
        place = np.full(len(tokens) + 1, -1)
        place[common] = np.arange(len(common))
        to = np.where(repeated, -1, place[own])
        moved = np.full((len(codes), len(common)), -1, np.int32)
        source = np.zeros(moved.shape, np.int16)
        rows, at = np.nonzero(to >= 0)
        moved[rows, to[rows, at]] = 0
        source[rows, to[rows, at]] = np.array(group)[at]
        codes[rows, np.array(group)[at]] = -1
        columns.append(moved)
        sources.append(source)
        weights += [tokens[element : element + 1] for element in common]
        readers += [encoded.readers[group[0]]] * len(common)
        overlaps += [np.zeros(1)] * len(common) if encoded.overlaps else []
        room -= len(common)
    whole = np.concatenate([codes, *columns], axis=1)
    return Spread(Encoded(whole, tuple(weights), tuple(readers), tuple(overlaps)), np.concatenate(sources, axis=1))


def gather(encoded: Encoded, solved: Spread, draft: Draft) -> Draft:
    """Turn a draft for `spread` rows into a draft for the original rows; NULLs come last."""
    rows, columns = encoded.codes.shape
    fields = draft.fields.astype(np.int64)
    source = np.take_along_axis(solved.source[draft.rows], fields, axis=1)
    there = np.take_along_axis(solved.encoded.codes[draft.rows], fields, axis=1) >= 0
    rank = np.full((rows, columns), fields.shape[1], np.int64)
    row, place = np.nonzero(there)
    rank[row, source[row, place]] = place
    return replace(draft, fields=np.argsort(rank, axis=1, kind="stable").astype(np.int16))


def _repeated(own: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return a mask of the elements that also occur in an earlier column of the same row."""
    found = np.zeros(own.shape, bool)
    for column in range(1, own.shape[1]):
        found[:, column] = (own[:, :column] == own[:, column : column + 1]).any(axis=1)
    return found
