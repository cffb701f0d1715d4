"""Find the distinct argument tuples in rows sorted by them, and put the answers back on the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_FIRST_RUNS, _MOST_RUNS = 16, 512
"""Distinct tuples in a unit of work; its rows are sent on as soon as all of its answers are there.

Units begin small and double, so that first rows come soon, and a LIMIT that is soon reached has asked for little.
"""


@dataclass(slots=True)
class Unit:
    """Sorted rows with their distinct argument tuples (runs), and for each call one answer per run, filled in later.

    Not thread-safe: one query's operator owns it.
    """

    rows: pa.RecordBatch
    run: NDArray[np.int64]
    """The run of each row."""
    tuples: list[tuple[str | None, ...]]
    """The argument values of each run."""
    answers: list[list[Any]] = field(default_factory=list)
    open: int = 0
    """Answers still to come."""

    def needed(self, guard: int | None) -> NDArray[np.bool_]:
        """Return for each run whether any of its rows has a true guard (None: all do)."""
        if guard is None or not len(self.run):
            return np.ones(len(self.tuples), dtype=bool)
        true = pc.fill_null(self.rows.column(guard), fill_value=False).to_numpy(zero_copy_only=False)
        needed = np.zeros(len(self.tuples), dtype=bool)
        needed[self.run[true]] = True
        return needed

    def finish(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows with one more column per call; `schema` is that of the result."""
        run, types = pa.array(self.run), schema.types[self.rows.num_columns :]
        added = [pa.array(a, type=t).take(run) for a, t in zip(self.answers, types, strict=True)]
        return pa.RecordBatch.from_arrays([*self.rows.columns, *added], schema=schema)


def units(batches: Iterator[pa.RecordBatch], arguments: Sequence[int]) -> Iterator[Unit]:
    """Split rows sorted by the argument columns into units; equal tuples in neighbouring units are not merged."""
    size = _FIRST_RUNS
    for batch in filter(len, batches):
        starts = _starts([batch.column(a) for a in arguments], batch.num_rows)
        first = 0
        while first < len(starts):
            own = starts[first : first + size]
            first += size
            end = starts[first] if first < len(starts) else batch.num_rows
            yield _unit(batch.slice(own[0], end - own[0]), own - own[0], arguments)
            size = min(2 * size, _MOST_RUNS)


def _unit(rows: pa.RecordBatch, starts: NDArray[np.int64], arguments: Sequence[int]) -> Unit:
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
    columns = [rows.column(a).take(pa.array(starts)).to_pylist() for a in arguments]
    return Unit(rows, run, list(zip(*columns, strict=True)))


def _starts(columns: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
    """Return the rows at which a tuple differs from the one before; NULL equals NULL."""
    differs = np.zeros(rows, dtype=bool)
    differs[0] = True
    for column in columns:
        before, after = column.slice(0, rows - 1), column.slice(1)
        unequal = pc.fill_null(pc.not_equal(before, after), fill_value=False)
        null_changes = pc.xor(pc.is_null(before), pc.is_null(after))
        differs[1:] |= pc.or_(unequal, null_changes).to_numpy(zero_copy_only=False)
    return np.flatnonzero(differs)
