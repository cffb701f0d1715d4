"""Prompts as sequences of numbers: a number stands for a column and a value, so equal prompts have equal sequences."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded

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

        The values are sorted. So two values share the smallest overlap of all neighbours between them. A sparse table
        finds these minima: it holds the minimum of each range whose length is a power of two.
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


def _join(parts: tuple[NDArray[np.float64], ...], readers: tuple[int, ...]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(1), *(part * times for part, times in zip(parts, readers, strict=True))])
