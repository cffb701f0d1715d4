"""Lists whose elements may stand in any order: to the orderings each common element is a column of its own.

A row that lacks it has NULL there, which takes no place in a prompt; so what orders fields orders elements too.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded

_CELLS = 20_000_000
"""Numbers that the rows may take when spread: what is left are the elements that gain least."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Rows whose common elements have columns of their own, and the column that each value came from."""

    encoded: Encoded
    source: NDArray[np.int16]


def spread(encoded: Encoded) -> Spread:
    """Give elements that several rows have columns of their own, after the columns there are.

    The others stay where they are, and so does an element that a row has twice.
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
    """Return a draft made for `spread` rows as one for the rows as they were; NULLs come last."""
    rows, columns = encoded.codes.shape
    fields = draft.fields.astype(np.int64)
    source = np.take_along_axis(solved.source[draft.rows], fields, axis=1)
    there = np.take_along_axis(solved.encoded.codes[draft.rows], fields, axis=1) >= 0
    rank = np.full((rows, columns), fields.shape[1], np.int64)
    row, place = np.nonzero(there)
    rank[row, source[row, place]] = place
    return replace(draft, fields=np.argsort(rank, axis=1, kind="stable").astype(np.int16))


def _repeated(own: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Tell which elements of a row stand in an earlier column of it too."""
    found = np.zeros(own.shape, bool)
    for column in range(1, own.shape[1]):
        found[:, column] = (own[:, :column] == own[:, column : column + 1]).any(axis=1)
    return found
