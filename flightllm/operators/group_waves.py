"""Choose which rows of groups to ask about next, and stop asking about a group that has enough rows."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.operators.ai_map import Runtime, numbered
from flightllm.plan.stages import GroupLimited, register

_Numbers = NDArray[np.int64]
_CAUTION = 0.5
"""The share of a group's likely need that one wave asks about. Calls beyond the need are lost."""
_HASTE = 0.75
"""The same share under a limit on all groups together."""


class GroupWaves:
    """The rows of groups, taken in waves; each group's rows keep their order.

    A group lacks rows while fewer than `count` of them passed. A wave has as many rows of each group as it lacks, and
    more where few rows passed so far. With a limit on all groups, a wave has as few groups as the limit is likely to
    need. One thread uses it.

    Example: rows 0..5 belong to the groups a, a, b, a, b, c, and `count` is 1.

    | wave | rows | passed |
    |---|---|---|
    | 1 | 0, 2, 5 | 2 |
    | 2 | 1 | |
    | 3 | 3 | |

    Group b is done after wave 1 and group c has no more rows; group a tries one row per wave until one passes.
    """

    def __init__(self, joint: GroupLimited, rows: Batches, runtime: Runtime) -> None:
        self._joint = joint
        self._runtime = runtime
        self._table = f"{joint.table}_rows"
        self._chosen_table = f"{joint.table}_chosen"
        self._schema = joint.input.schema.append(pa.field("position", pa.int64()))
        self._spooled = runtime.spool(self._table, self._schema, numbered(rows, self._schema))
        self._width = len(self._schema) - joint.keys - 1
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
        """Yield waves. Between two waves the caller must call `got` with the rows that passed."""
        while len(chosen := self._choose()):
            self._asked += len(chosen)
            yield self._take(np.sort(chosen))

    def got(self, numbers: pa.Array) -> None:
        """Count the rows that passed, by their row numbers."""
        passed = np.asarray(numbers, dtype=np.int64)
        self._passed += len(passed)
        np.add.at(self._got, self._group[passed], 1)

    def _choose(self) -> _Numbers:
        """Return the numbers of the rows to ask about next; an empty array at the end."""
        lack = self._joint.count - self._got
        open_ = np.flatnonzero((lack > 0) & (self._next < self._ends))
        rate = (self._passed + 1) / (self._asked + 2)
        takes = np.maximum(lack[open_], np.floor(_CAUTION * lack[open_] / rate).astype(np.int64))
        if self._joint.limit is not None:
            left = self._joint.limit - self._passed
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
        """Return the group of each row, counted from 0. Equal keys share a group; NULL equals NULL."""
        if not self._joint.keys:
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
        return pa.RecordBatch.from_arrays(batches[0].columns, schema=self._joint.wave_schema)
