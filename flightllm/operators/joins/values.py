"""Numbers for the distinct values of a join's sides; both sides share the numbers of equal values.

The rows that are read get numbers in the order in which their values come. Then `settle` gives each value its place in
an order by hashes. So the order of rows decides neither which pairs are asked, nor which samples are drawn, nor which
values the model sees. A rerun over rows in another order buys nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError
from flightllm.plan.stages import PairJoin

Ints: TypeAlias = NDArray[np.int64]
Value: TypeAlias = tuple[str | None, ...]
"""The arguments of the call that one side gives."""


@dataclass(slots=True)
class Values:
    """The distinct values of both sides, by number, and how many rows of each side have them."""

    found: list[Value] = field(default_factory=list)
    _numbers: dict[Value, int] = field(default_factory=dict)
    rows: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """For each number the rows of the left side, and those of the right side; the lists can be short."""
    read: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """For each number, once it is settled, the number that the rows were read with."""
    settled: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """For each number that rows were read with, the settled one."""

    def number(self, values: list[Value], side: int) -> Ints:
        """Return the number of each value, and count its row."""
        numbers, counts = self._numbers, self.rows[side]
        result = np.empty(len(values), np.int64)
        for place, value in enumerate(values):
            number = numbers.get(value)
            if number is None:
                number = numbers[value] = len(self.found)
                self.found.append(value)
            if number >= len(counts):
                counts.extend([0] * (number + 1 - len(counts)))
            counts[number] += 1
            result[place] = number
        return result

    def settle(self) -> None:
        """Number the values by their hashes."""
        order = sorted(range(len(self.found)), key=lambda n: _hash(self.found[n]))
        counts = [self.counts(side)[order].tolist() for side in (0, 1)]
        self.found = [self.found[n] for n in order]
        self.rows = counts[0], counts[1]
        self.read = np.asarray(order, np.int64)
        self.settled = np.argsort(self.read)
        self._numbers.clear()

    def counts(self, side: int) -> Ints:
        """Return for each number the rows of a side."""
        counts = np.zeros(len(self.found), np.int64)
        counts[: len(self.rows[side])] = self.rows[side]
        return counts


def _hash(value: Value) -> bytes:
    return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def numbered(join: PairJoin, side: int, rows: Batches, values: Values) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a side with the number of their value; rows without a value that the call needs are left out.

    Such rows match nothing, and the call is never made for them.
    """
    needed = [at for f, (is_left, at) in enumerate(join.places) if is_left == (side == 0) and f in join.ai.required]
    columns, width, schema = join.sides[side], join.widths[side], join.schemas[side]
    for batch in rows:
        if not all(pa.types.is_string(batch.schema.field(c).type) for c in columns):
            raise InternalError(f"arguments of {join.ai.text} must be texts")
        keep = np.ones(batch.num_rows, bool)
        for at in needed:
            keep &= batch.column(columns[at]).is_valid().to_numpy(zero_copy_only=False)
        kept = batch if keep.all() else batch.filter(pa.array(keep))
        if not kept.num_rows:
            continue
        found = list(zip(*(kept.column(c).to_pylist() for c in columns), strict=True))
        numbers = pa.array(values.number(found, side))
        yield pa.RecordBatch.from_arrays([*kept.columns[:width], numbers], schema=schema)
