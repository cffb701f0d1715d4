"""Batches of rows with their distinct argument tuples and answers, and the conditions that drop rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from substrait.plan_pb2 import Plan

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError
from flightllm.operators.rows import answer_column
from flightllm.plan.stages import Condition

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
    goes_on: bool = False
    """Whether the batch has one tuple, and the next batch has further rows of it."""
    following: tuple[tuple[str | None, ...], tuple[int, ...] | None] | None = None
    """The tuple that is sent after those of this batch, and its order; None where this is unknown."""
    numbers: _Rows | None = None
    """The number of each row among all rows of the operator, if these are in memory."""
    answers: dict[int, list[Any]] = field(default_factory=dict)
    """By call, one answer per tuple."""
    guards: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """By call that has a guard, the rows for which the guard is true. The other rows have no answer."""
    alive: NDArray[np.bool_] | None = None
    """The rows that no filter has dropped; None: all."""

    @classmethod
    def of_texts(cls, tuples: list[tuple[str | None, ...]], flags: Sequence[Sequence[bool]] = ()) -> "PromptBatch":
        """Return a batch with a row for each of some tuples of texts; `flags` are further columns of booleans."""
        columns = [pa.array(values, pa.string()) for values in zip(*tuples, strict=True)]
        columns += [pa.array(values, pa.bool_()) for values in flags]
        rows = pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))])
        return cls(rows, np.arange(len(tuples)), tuples)

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


class Conditions:
    """Evaluates conditions over an operator's output, in a context that keeps the order of rows."""

    def __init__(
        self,
        schema: pa.Schema,
        width: int,
        hold: Callable[[str, pa.Schema, Sequence[pa.RecordBatch]], None],
        run: Callable[[Plan], Batches],
    ) -> None:
        """Create it. `hold` puts rows into a table; `run` runs a plan over the table and keeps the order of rows."""
        self._schema = schema
        self._width = width
        self._hold = hold
        self._run = run

    def true(self, condition: Condition, batch: PromptBatch) -> NDArray[np.bool_]:
        """Return for each row of `batch` whether it is alive and satisfies the condition."""
        alive = np.ones(len(batch.tuple_of_row), dtype=bool) if batch.alive is None else batch.alive
        columns = [self._column(c, batch).filter(pa.array(alive)) for c in condition.reads]
        values = columns[0] if condition.plan is None else self._evaluate(condition, columns, int(alive.sum()))
        result = np.zeros(len(batch.tuple_of_row), dtype=bool)
        result[alive] = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
        return result

    def _column(self, column: int, batch: PromptBatch) -> pa.Array:
        if column < self._width:
            return batch.rows.column(column)
        return batch.answer(column - self._width, self._schema.field(column).type)

    def _evaluate(self, condition: Condition, columns: list[pa.Array], rows: int) -> pa.Array:
        if not rows:
            return pa.array([], pa.bool_())
        given = columns or [pa.nulls(rows, pa.bool_())]
        self._hold(condition.table, condition.schema, [pa.RecordBatch.from_arrays(given, schema=condition.schema)])
        if condition.plan is None:
            raise InternalError("a condition without a plan is a column")
        found = [part.column(0) for part in self._run(condition.plan)]
        return pa.concat_arrays([part.cast(pa.bool_()) for part in found])


def _true(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
    return found
