"""Find the distinct argument tuples in rows sorted by them, and put the answers back on the rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flightllm.operators.elements import elements
from flightllm.operators.rows import answer_column

_FIRST_RUNS, _MOST_RUNS = 16, 512
"""Distinct tuples in a unit of work; its rows are sent on as soon as all of its answers have arrived."""

_Rows = NDArray[np.int64]


@dataclass(slots=True)
class Unit:
    """Sorted rows with their distinct argument tuples (runs). Each call has one answer per run, filled in later.

    Three rows of the call `ai_filter('Is it red?', name)`, sorted by name:

    | rows | run | tuples | answers of the call | answer per row |
    |---|---|---|---|---|
    | apple | 0 | (apple) | true | true |
    | apple | 0 | | | true |
    | kiwi | 1 | (kiwi) | false | false |

    Not thread-safe: one query's operator owns it.
    """

    rows: pa.RecordBatch
    run: _Rows
    """The run number of each row."""
    tuples: list[tuple[str | None, ...]]
    """The argument values of each run."""
    orders: Sequence[tuple[int, ...]] = ()
    """For each run, its arguments' positions in prompt order; empty if all runs have the same order."""
    answers: dict[int, list[Any]] = field(default_factory=dict)
    """For each call, one answer per run."""
    asked: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """For each call with a guard, the rows for which the guard is true; other rows of the same run get NULL."""
    alive: NDArray[np.bool_] | None = None
    """The rows not dropped yet; None for all rows."""
    open: int = 0
    """The number of answers that must arrive before the unit goes on."""
    done: set[int] = field(default_factory=set)
    """The steps begun; `step` is the last of these steps, and `rounds` are the rounds of calls left in it."""
    step: int | None = None
    rounds: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """Return the number of rows not dropped yet."""
        return len(self.run) if self.alive is None else int(self.alive.sum())

    def needed(self, guard: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Return for each run whether a row of it is alive and has a true guard (None: each guard is true)."""
        rows = guard if self.alive is None else self.alive if guard is None else self.alive & guard
        if rows is None or not len(self.run):
            return np.ones(len(self.tuples), dtype=bool)
        needed = np.zeros(len(self.tuples), dtype=bool)
        needed[self.run[rows]] = True
        return needed

    def true(self, column: int) -> NDArray[np.bool_]:
        """Return for each row whether a boolean column is true."""
        return _true(self.rows.column(column))

    def answer(self, call: int, kind: pa.DataType) -> pa.Array:
        """Return the answer of a call for each row; NULL for a row whose guard was false."""
        values, asked = self.answers.get(call), self.asked.get(call)
        if values is None:
            return pa.nulls(len(self.run), kind)
        return answer_column(values, kind).take(pa.array(self.run, mask=None if asked is None else ~asked))

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Keep alive only these rows."""
        self.alive = rows if self.alive is None else self.alive & rows

    def finish(self, calls: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows alive with one more column per call; `schema` is that of the result."""
        types = schema.types[self.rows.num_columns :]
        added = [self.answer(call, kind) for call, kind in zip(calls, types, strict=True)]
        batch = pa.RecordBatch.from_arrays([*self.rows.columns, *added], schema=schema)
        return batch if self.alive is None else batch.filter(pa.array(self.alive))


def growing_sizes() -> Callable[[], int]:
    """Return a function of unit sizes: small at first and then doubling, so that first rows come soon."""
    size = _FIRST_RUNS // 2

    def following() -> int:
        nonlocal size
        size = min(2 * size, _MOST_RUNS)
        return size

    return following


def units(batches: Iterator[pa.RecordBatch], arguments: Sequence[int], size: Callable[[], int]) -> Iterator[Unit]:
    """Split rows sorted by the argument columns into units of at most `size()` runs.

    If two neighbouring units have equal tuples, the tuples stay separate.
    """
    for batch in filter(len, batches):
        yield from split(batch, changes([batch.column(a) for a in arguments], batch.num_rows), arguments, size)


def split(
    rows: pa.RecordBatch,
    starts: _Rows,
    arguments: Sequence[int],
    size: Callable[[], int],
    orders: Sequence[tuple[int, ...]] = (),
    lists: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[Unit]:
    """Split rows into units; the runs begin at the rows `starts`, and `orders` has one order per run.

    `lists` maps an argument to the number of positions that its elements take in a tuple.
    """
    first = 0
    while first < len(starts):
        last = min(first + max(1, size()), len(starts))
        own = starts[first:last]
        end = starts[last] if last < len(starts) else rows.num_rows
        run = np.repeat(np.arange(len(own)), np.diff(np.append(own, end)))
        values = {a: rows.column(a).take(pa.array(own)) for a in arguments}
        parts = [elements(values[a], lists[a]) if a in lists else [values[a]] for a in arguments]
        columns = [column.to_pylist() for part in parts for column in part]
        yield Unit(rows.slice(own[0], end - own[0]), run, list(zip(*columns, strict=True)), orders[first:last])
        first = last


def changes(columns: Sequence[pa.Array], rows: int) -> _Rows:
    """Return the row numbers at which a tuple differs from the tuple before it; NULL equals NULL.

    | row | column a | column b | differs |
    |---|---|---|---|
    | 0 | x | NULL | true (the first row) |
    | 1 | x | NULL | false |
    | 2 | x | y | true |

    The result is `[0, 2]`.
    """
    differs = np.zeros(rows, dtype=bool)
    differs[0] = True
    for column in columns:
        before, after = column.slice(0, rows - 1), column.slice(1)
        unequal = pc.fill_null(pc.not_equal(before, after), fill_value=False)
        null_changes = pc.xor(pc.is_null(before), pc.is_null(after))
        differs[1:] |= pc.or_(unequal, null_changes).to_numpy(zero_copy_only=False)
    return np.flatnonzero(differs)


def _true(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
    return found
