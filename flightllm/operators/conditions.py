"""Evaluate a condition on the rows of a batch."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from substrait.plan_pb2 import Plan

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError
from flightllm.operators.batches import PromptBatch
from flightllm.plan.stages import Condition


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
