"""Choose the rows of groups whose prompts are sent next. A group that has enough rows gets no more prompts."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.operators.runtime import Runtime, with_row_ids
from flightllm.plan.stages import GroupLimited, register

_Numbers = NDArray[np.int64]
_CAUTION = 0.5
"""One wave takes this part of a group's likely need, because every superfluous prompt is wasted."""
_HASTE = 0.75
"""The same part if a limit holds for all groups together."""


class GroupWaves:
    """Take the rows of groups in waves, the rows of each group in their order.

    A wave has one row of each group that lacks rows, and more if few rows have passed so far. With a limit on all
    groups, a wave has as few groups as the limit is likely to need. One thread uses it.

    Example: rows 0 to 5 of the groups a, a, b, a, b, c, and one row wanted of each. The first wave has the rows 0, 2
    and 5. If 2 passes and 0 fails, the second wave has row 1. If that fails too, the third wave has row 3.
    """

    def __init__(self, stage_input: GroupLimited, rows: Batches, runtime: Runtime) -> None:
        self._stage_input = stage_input
        self._runtime = runtime
        self._table = f"{stage_input.table}_rows"
        self._chosen_table = f"{stage_input.table}_chosen"
        self._schema = stage_input.input.schema.append(pa.field("position", pa.int64()))
        self._spooled = runtime.spool(self._table, self._schema, with_row_ids(rows, self._schema))
        self._width = len(self._schema) - stage_input.keys - 1
        self._rows = None
        if self._spooled.batches is not None:
            self._rows = pa.Table.from_batches(self._spooled.batches, self._schema)
        self._group = self._groups()
        self._order: _Numbers = np.argsort(self._group, kind="stable")
        sizes = np.bincount(self._group) if len(self._group) else np.zeros(0, dtype=np.int64)
        self._ends: _Numbers = np.cumsum(sizes)
        self._next: _Numbers = self._ends - sizes
        self._got: _Numbers = np.zeros(len(sizes), dtype=np.int64)
        self._asked = self._passed = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield waves. Between two waves, the caller must tell `got` which rows of the first one passed."""
        while len(chosen := self._choose()):
            self._asked += len(chosen)
            yield self._take(np.sort(chosen))

    def got(self, numbers: pa.Array) -> None:
        """Count the rows that passed, by their row numbers."""
        passed = np.asarray(numbers, dtype=np.int64)
        self._passed += len(passed)
        np.add.at(self._got, self._group[passed], 1)

    def _choose(self) -> _Numbers:
        """Return the numbers of the rows to ask about next; none at the end."""
        lack = self._stage_input.count - self._got
        open_ = np.flatnonzero((lack > 0) & (self._next < self._ends))
        rate = (self._passed + 1) / (self._asked + 2)
        takes = np.maximum(lack[open_], np.floor(_CAUTION * lack[open_] / rate).astype(np.int64))
        if self._stage_input.limit is not None:
            left = self._stage_input.limit - self._passed
            if left <= 0:
                return np.zeros(0, dtype=np.int64)
            takes = lack[open_]
            enough = max(left, int(_HASTE * left / rate))
            last = int(np.searchsorted(np.cumsum(takes), enough)) + 1
            open_, takes = open_[:last], takes[:last]
        takes = np.minimum(takes, self._ends[open_] - self._next[open_])
        starts = np.repeat(self._next[open_], takes)
        steps = np.arange(int(takes.sum())) - np.repeat(np.cumsum(takes) - takes, takes)
        self._next[open_] += takes
        return np.asarray(self._order[starts + steps])

    def _groups(self) -> _Numbers:
        """Return the group of each row, from 0 on; equal keys share one, NULLs too."""
        if not self._stage_input.keys:
            return np.zeros(self._spooled.rows, dtype=np.int64)
        names = ", ".join(self._schema.names[self._width : -1])
        numbers = np.empty(self._spooled.rows, dtype=np.int64)
        ranked = f"SELECT position, dense_rank() OVER (ORDER BY {names}) AS grp FROM {self._table}"
        for batch in self._runtime.sql(ranked):
            numbers[np.asarray(batch.column(0))] = np.asarray(batch.column(1)).astype(np.int64) - 1
        return numbers

    def _take(self, chosen: _Numbers) -> pa.RecordBatch:
        """Return the rows with these numbers, without their keys."""
        if self._rows is not None:
            return self._shown(self._rows.take(pa.array(chosen)))
        schema = pa.schema([pa.field("number", pa.int64())])
        wanted = pa.RecordBatch.from_arrays([pa.array(chosen)], schema=schema)
        register(self._runtime.context, self._chosen_table, schema, [wanted])
        sql = (
            f"SELECT * FROM {self._table} WHERE position IN (SELECT number FROM {self._chosen_table}) ORDER BY position"
        )
        return self._shown(pa.Table.from_batches(list(self._runtime.sql(sql)), self._schema))

    def _shown(self, rows: pa.Table) -> pa.RecordBatch:
        columns = [*range(self._width), len(self._schema) - 1]
        batches = rows.select(columns).combine_chunks().to_batches()
        return pa.RecordBatch.from_arrays(batches[0].columns, schema=self._stage_input.wave_schema)
