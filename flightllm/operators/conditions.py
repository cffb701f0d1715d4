"""Evaluate a condition on the rows of a unit."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from substrait.plan_pb2 import Plan

from flightllm.datafusion.run import Batches
from flightllm.errors import InternalError
from flightllm.operators.batches import Unit
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
        """Take `hold`, which puts rows into a table, and `run`, which runs a plan and keeps their order."""
        self._schema = schema
        self._width = width
        self._hold = hold
        self._run = run

    def true(self, condition: Condition, unit: Unit) -> NDArray[np.bool_]:
        """Return for each row of `unit` whether it is alive and satisfies the condition.

        With a condition "the answer is 'yes'" over three rows, of which row 1 was dropped before:

        | row | alive | answer | result |
        |---|---|---|---|
        | 0 | true | yes | true |
        | 1 | false | yes | false |
        | 2 | true | NULL | false |
        """
        alive = np.ones(len(unit.run), dtype=bool) if unit.alive is None else unit.alive
        columns = [self._column(c, unit).filter(pa.array(alive)) for c in condition.reads]
        values = columns[0] if condition.plan is None else self._evaluate(condition, columns, int(alive.sum()))
        result = np.zeros(len(unit.run), dtype=bool)
        result[alive] = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
        return result

    def _column(self, column: int, unit: Unit) -> pa.Array:
        if column < self._width:
            return unit.rows.column(column)
        return unit.answer(column - self._width, self._schema.field(column).type)

    def _evaluate(self, condition: Condition, columns: list[pa.Array], rows: int) -> pa.Array:
        if not rows:
            return pa.array([], pa.bool_())
        given = columns or [pa.nulls(rows, pa.bool_())]
        batch = pa.RecordBatch.from_arrays(given, schema=condition.schema)
        self._hold(condition.table, condition.schema, [batch])
        if condition.plan is None:
            raise InternalError("a condition without a plan is a column")
        found = [part.column(0) for part in self._run(condition.plan)]
        return pa.concat_arrays([part.cast(pa.bool_()) for part in found])
