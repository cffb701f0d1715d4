"""Prompts as sequences of numbers: one number per (column, value), so that equal prefixes are equal numbers."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded

Sequence = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Flat:
    """The dictionaries of all columns end to end; number 0 is NULL, which takes no place in a prompt."""

    offsets: NDArray[np.int64]
    """Number of each column's first value, and one past the last."""
    weights: NDArray[np.float64]
    """By number: tokens, times readers."""
    overlaps: NDArray[np.float64] | None
    """By number: tokens in common with the number before, times readers; 0 where a column begins."""

    @classmethod
    def of(cls, encoded: Encoded) -> Self:
        """Lay the columns of `encoded` end to end."""
        offsets = np.cumsum([1, *(len(weights) for weights in encoded.weights)], dtype=np.int64)
        weights = _join(encoded.weights, encoded.readers)
        overlaps = _join(encoded.overlaps, encoded.readers) if encoded.overlaps else None
        if overlaps is not None:
            overlaps[offsets[:-1][offsets[:-1] < len(overlaps)]] = 0.0
        return cls(offsets, weights, overlaps)

    def sequence(self, codes: NDArray[np.int32], fields: NDArray[np.int16]) -> Sequence:
        """Return for each row its fields' numbers in prompt order; NULLs are left out and zeros stand at the end.

        `codes` and `fields` are n × k; row i of both is the same tuple.
        """
        placed = np.take_along_axis(codes, fields.astype(np.int64), axis=1)
        missing = placed < 0
        numbers = np.where(missing, 0, placed + self.offsets[fields])
        if missing.any():
            shift = np.argsort(missing, axis=1, kind="stable")
            numbers = np.take_along_axis(numbers, shift, axis=1)
        return numbers

    def partial(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how many tokens pairs of numbers have in common: 0 unless of one column with known overlaps.

        Values are sorted, so that is the least overlap between neighbours from one to the other.
        """
        found = np.zeros(len(left))
        if self.overlaps is None or not len(left):
            return found
        low, high = np.minimum(left, right), np.maximum(left, right)
        same = (low > 0) & (low < high)
        same &= np.searchsorted(self.offsets, low, "right") == np.searchsorted(self.offsets, high, "right")
        asked = np.flatnonzero(same)
        low, high = low[asked] + 1, high[asked] + 1
        level = np.frexp((high - low).astype(np.float64))[1] - 1
        least = self.overlaps
        for power in range(int(level.max(initial=-1)) + 1):
            here = np.flatnonzero(level == power)
            found[asked[here]] = np.minimum(least[low[here]], least[high[here] - (1 << power)])
            least = np.minimum(least[: -(1 << power)], least[1 << power :])
        return found


def sort_rows(sequence: Sequence) -> NDArray[np.int64]:
    """Return the rows of `sequence` in lexicographic order, equal ones as given."""
    places: NDArray[np.int64] = np.lexsort(sequence.T[::-1]).astype(np.int64, copy=False)
    return places


def shared_fields(sequence: Sequence) -> NDArray[np.int64]:
    """Return for each row how many leading numbers it has in common with the row before; 0 for the first."""
    depth = np.zeros(len(sequence), dtype=np.int64)
    agree = np.ones(max(len(sequence) - 1, 0), dtype=bool)
    for column in range(sequence.shape[1]):
        agree &= sequence[1:, column] == sequence[:-1, column]
        depth[1:] += agree
    return depth


def _join(parts: tuple[NDArray[np.float64], ...], readers: tuple[int, ...]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(1), *(part * times for part, times in zip(parts, readers, strict=True))])
