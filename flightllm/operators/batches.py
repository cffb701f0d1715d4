"""Cut rows into batches, each with its distinct argument tuples, and put the answers back on the rows."""

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

_FIRST_TUPLES, _MOST_TUPLES = 16, 512
"""Distinct tuples in a batch; its rows are sent on as soon as all of its answers are there."""

_Rows = NDArray[np.int64]


@dataclass(slots=True)
class PromptBatch:
    """Sorted rows with their distinct argument tuples, and for each call one answer per tuple, filled in later.

    Example: a batch of three rows whose one argument column is `color`, after a call that answers upper case:

    | `rows` | `tuple_of_row` | `tuples` | `answers[0]` |
    |---|---|---|---|
    | blue | 0 | ("blue",) | BLUE |
    | red | 1 | ("red",) | RED |
    | red | 1 | | |

    Each row takes the answer of its tuple: BLUE, RED, RED. The model answered two prompts. Not thread-safe.
    """

    rows: pa.RecordBatch
    tuple_of_row: _Rows
    """For each row, the index of its tuple in `tuples`."""
    tuples: list[tuple[str | None, ...]]
    """The distinct tuples of argument values."""
    orders: Sequence[tuple[int, ...]] = ()
    """For each tuple the positions of its values in prompt order; empty if one order holds for all batches."""
    answers: dict[int, list[Any]] = field(default_factory=dict)
    """By call, one answer per tuple."""
    guards: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """By call that has a guard, the rows for which the guard is true. The other rows have no answer."""
    alive: NDArray[np.bool_] | None = None
    """The rows that no filter has dropped; None: all."""

    @property
    def kept(self) -> int:
        """Return the number of rows that no filter has dropped."""
        return len(self.tuple_of_row) if self.alive is None else int(self.alive.sum())

    def kept_rows_of(self, tuple_index: int) -> int:
        """Return how many rows of a tuple no filter has dropped."""
        rows = self.tuple_of_row == tuple_index
        return int((rows if self.alive is None else rows & self.alive).sum())

    def needed(self, guard: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Return for each tuple whether any of its rows is alive and has a true guard (None: all guards are true)."""
        rows = guard if self.alive is None else self.alive if guard is None else self.alive & guard
        if rows is None or not len(self.tuple_of_row):
            return np.ones(len(self.tuples), dtype=bool)
        needed = np.zeros(len(self.tuples), dtype=bool)
        needed[self.tuple_of_row[rows]] = True
        return needed

    def true(self, column: int) -> NDArray[np.bool_]:
        """Return for each row whether a boolean column is true."""
        return _true(self.rows.column(column))

    def answer(self, call: int, kind: pa.DataType) -> pa.Array:
        """Return the answers of a call, one per row; NULL where the guard is false or the call was not asked."""
        values, guard = self.answers.get(call), self.guards.get(call)
        if values is None:
            return pa.nulls(len(self.tuple_of_row), kind)
        return answer_column(values, kind).take(pa.array(self.tuple_of_row, mask=None if guard is None else ~guard))

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
    """Return a function that returns the size of the next batch: small at first, so that first rows come soon."""
    size = _FIRST_TUPLES // 2

    def following() -> int:
        nonlocal size
        size = min(2 * size, _MOST_TUPLES)
        return size

    return following


def prompt_batches(
    batches: Iterator[pa.RecordBatch], arguments: Sequence[int], size: Callable[[], int]
) -> Iterator[PromptBatch]:
    """Split rows sorted by the argument columns into batches of at most `size()` tuples.

    Equal tuples in neighbouring batches are not merged.
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
) -> Iterator[PromptBatch]:
    """Split sorted rows into batches. `starts` has the first row of each tuple, `orders` its prompt order.

    `lists` maps each argument that is a list to the number of positions that its elements take in a tuple.

    Example: the rows blue, red, red have the starts [0, 1].
    """
    first = 0
    while first < len(starts):
        last = min(first + max(1, size()), len(starts))
        own = starts[first:last]
        end = starts[last] if last < len(starts) else rows.num_rows
        lengths = np.diff(np.append(own, end))
        tuple_of_row = np.repeat(np.arange(len(own)), lengths)
        values = {a: rows.column(a).take(pa.array(own)) for a in arguments}
        parts = [elements(values[a], lists[a]) if a in lists else [values[a]] for a in arguments]
        columns = [column.to_pylist() for part in parts for column in part]
        tuples = list(zip(*columns, strict=True))
        yield PromptBatch(rows.slice(own[0], end - own[0]), tuple_of_row, tuples, orders[first:last])
        first = last


def changes(columns: Sequence[pa.Array], rows: int) -> _Rows:
    """Return the rows at which a tuple differs from the row before; NULL equals NULL.

    Example: blue, red, red, NULL, NULL changes at [0, 1, 3].
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
