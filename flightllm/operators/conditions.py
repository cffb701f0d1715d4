"""Evaluate a condition on the rows of a unit: which are true."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionContext
from numpy.typing import NDArray

from flightllm.errors import InternalError
from flightllm.operators.batches import Unit
from flightllm.operators.relational import Loop
from flightllm.plan.stages import Condition, register, stage_frame


class Conditions:
    """Evaluate conditions over an operator's output in a context that keeps the order of rows."""

    def __init__(
        self, schema: pa.Schema, width: int, context: SessionContext, loop: Loop, cancelled: Callable[[], bool]
    ) -> None:
        self._schema = schema
        self._width = width
        self._context = context
        self._loop = loop
        self._cancelled = cancelled

    def true(self, condition: Condition, unit: Unit) -> NDArray[np.bool_]:
        """Return for each row of `unit` whether it is alive and the condition true of it."""
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
        register(self._context, condition.table, condition.schema, [batch])
        if condition.plan is None:
            raise InternalError("a condition without a plan is a column")
        frame = stage_frame(self._context, condition.plan)
        found = [part.column(0) for part in self._loop.stream(frame, self._cancelled)]
        return pa.concat_arrays([part.cast(pa.bool_()) for part in found])
