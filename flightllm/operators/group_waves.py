"""Choose the rows of groups whose prompts are sent next. A group that has enough rows gets no more prompts."""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from substrait.algebra_pb2 import SortField

from flightllm.datafusion.run import Batches
from flightllm.operators.runtime import Runtime, with_row_ids
from flightllm.plan.nodes import ALL_ROWS, Ties
from flightllm.plan.stages import GroupLimited, Operator, PairJoin, Relational, United, register

_Numbers = NDArray[np.int64]
_CAUTION = 0.5
"""One wave takes this part of a group's likely need, because every superfluous prompt is wasted."""
_HASTE = 0.75
"""The same part if a limit holds for all groups together."""
_SQL = {
    SortField.SORT_DIRECTION_ASC_NULLS_FIRST: "ASC NULLS FIRST",
    SortField.SORT_DIRECTION_ASC_NULLS_LAST: "ASC NULLS LAST",
    SortField.SORT_DIRECTION_DESC_NULLS_FIRST: "DESC NULLS FIRST",
    SortField.SORT_DIRECTION_DESC_NULLS_LAST: "DESC NULLS LAST",
}
"""The directions in which groups can be sorted."""


class GroupWaves:
    """Take the rows of groups in waves, the rows of each group in their order.

    A wave has one row of each group that lacks rows, and more if few rows have passed so far. With a limit on all
    groups, a wave has as few groups as the limit is likely to need. If the groups have an order, groups after the last
    one that the limit keeps get no prompt. One wave has all rows if values are NaN or -0.0, if a key is a struct, or
    if rows calibrate a call. One thread uses it.

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
        self._width = len(self._schema) - stage_input.keys - stage_input.peers - 1
        self._rows = None
        if self._spooled.batches is not None:
            self._rows = pa.Table.from_batches(self._spooled.batches, self._schema)
        self._asks_all = _needs_all_rows(stage_input.chain) or self._has_special_keys() or self._has_special_floats()
        self._group = self._groups(0 if self._asks_all else stage_input.keys)
        ties = stage_input.ties is not None and not self._asks_all
        self._peer = self._groups(stage_input.keys + stage_input.peers) if ties else None
        self._order: _Numbers = np.argsort(self._group, kind="stable")
        sizes = np.bincount(self._group) if len(self._group) else np.zeros(0, dtype=np.int64)
        self._ends: _Numbers = np.cumsum(sizes)
        self._next: _Numbers = self._ends - sizes
        self._got: _Numbers = np.zeros(len(sizes), dtype=np.int64)
        self._asked = self._passed = 0
        self._run_ends = None if self._peer is None else _run_ends(self._peer[self._order])
        self._counted = np.zeros(0 if self._peer is None else len(self._peer), dtype=bool)
        """The peers that a row of `_got` stands for, where ties count once."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield waves. Between two waves, the caller must tell `got` which rows of the first one passed."""
        while len(chosen := self._choose()):
            self._asked += len(chosen)
            yield self._take(np.sort(chosen))

    def got(self, rows: pa.RecordBatch) -> None:
        """Count the rows that passed; `rows` are rows of the chain's result."""
        numbers = rows.column(self._stage_input.number)
        if self._stage_input.decided is not None:
            numbers = numbers.filter(rows.column(self._stage_input.decided))
        passed = np.asarray(numbers, dtype=np.int64)
        self._passed += len(passed)
        if self._stage_input.ties is Ties.DENSE_RANK and self._peer is not None:
            passed = passed[np.unique(self._peer[passed], return_index=True)[1]]
            passed = passed[~self._counted[self._peer[passed]]]
            self._counted[self._peer[passed]] = True
        np.add.at(self._got, self._group[passed], 1)

    def _choose(self) -> _Numbers:
        """Return the numbers of the rows to ask about next; none at the end."""
        if self._asks_all:
            chosen = self._order[self._next[0] :] if len(self._next) else self._order
            self._next = self._ends
            return chosen
        lack = self._stage_input.count - self._got
        open_ = np.flatnonzero(((lack > 0) | self._has_ties()) & (self._next < self._ends))
        if self._stage_input.directions:
            open_ = self._before_last(open_)
        rate = (self._passed + 1) / (self._asked + 2)
        takes = np.maximum(lack[open_], np.floor(_CAUTION * lack[open_] / rate).astype(np.int64))
        if self._stage_input.limit is not None:
            left = self._stage_input.limit - int(np.count_nonzero(self._complete()))
            if self._stage_input.directions and len(open_):
                left = max(left, 1)
            if left <= 0:
                return np.zeros(0, dtype=np.int64)
            takes = lack[open_]
            enough = max(left, int(_HASTE * left / rate))
            last = int(np.searchsorted(np.cumsum(takes), enough)) + 1
            last = left if self._stage_input.count == ALL_ROWS else last
            open_, takes = open_[:last], takes[:last]
        if self._run_ends is not None:
            takes = np.where(lack[open_] > 0, takes, self._run_ends[self._next[open_]] - self._next[open_])
        takes = np.minimum(takes, self._ends[open_] - self._next[open_])
        starts = np.repeat(self._next[open_], takes)
        steps = np.arange(int(takes.sum())) - np.repeat(np.cumsum(takes) - takes, takes)
        self._next[open_] += takes
        return np.asarray(self._order[starts + steps])

    def _complete(self) -> NDArray[np.bool_]:
        """Tell for each group whether it has all rows that it needs, and at least one row."""
        lacks = (self._got < self._stage_input.count) & (self._next < self._ends)
        return np.asarray((self._got > 0) & ~lacks)

    def _has_ties(self) -> NDArray[np.bool_]:
        """Tell for each group whether its next row is equal to its last one in the order of the rows."""
        if self._peer is None:
            return np.zeros(len(self._ends), dtype=bool)
        peers, last = self._peer[self._order], np.maximum(self._next - 1, 0)
        return np.asarray(peers[np.minimum(self._next, len(peers) - 1)] == peers[last])

    def _before_last(self, open_: _Numbers) -> _Numbers:
        """Return the groups of `open_` that come before the last group that the limit keeps so far."""
        limit, done = self._stage_input.limit, np.flatnonzero(self._complete())
        return open_ if limit is None or len(done) < limit else open_[open_ < done[limit - 1]]

    def _has_special_keys(self) -> bool:
        """Return whether a key has a type whose values DataFusion cannot sort."""
        keys = self._schema.names[self._width : -1]
        return any(pa.types.is_struct(self._schema.field(name).type) for name in keys)

    def _has_special_floats(self) -> bool:
        """Return whether a value is NaN or -0.0.

        Sorting puts NaN last and -0.0 before 0.0. GROUP BY and joins take both zeros as equal, and `max` and `min` read
        NaN in another way. So the first row of a sorted group would not decide the group.
        """
        names = [field.name for field in self._schema if pa.types.is_floating(field.type)]
        if not names:
            return False
        special = " OR ".join(f"isnan({name}) OR ({name} = 0 AND 1.0 / {name} < 0)" for name in names)
        rows = self._runtime.sql(f"SELECT count(*) FROM (SELECT 1 FROM {self._table} WHERE {special} LIMIT 1)")
        return any(batch.column(0)[0].as_py() for batch in rows)

    def _groups(self, count: int) -> _Numbers:
        """Return the group of each row by the first `count` keys, from 0 on, in the order of the keys.

        Rows with equal keys share a group, and NULLs are equal.
        """
        if not count:
            return np.zeros(self._spooled.rows, dtype=np.int64)
        directions = [_SQL[d] for d in self._stage_input.directions]
        keys = zip_longest(self._schema.names[self._width : self._width + count], directions, fillvalue="")
        names = ", ".join(f"{name} {direction}" for name, direction in keys)
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


def _run_ends(values: _Numbers) -> _Numbers:
    """Return for each place the first place after it with another value.

    Example: 5, 5, 7 gives 2, 2, 3.
    """
    ends = np.append(np.flatnonzero(np.diff(values)) + 1, len(values)) if len(values) else values
    return np.asarray(np.repeat(ends, np.diff(ends, prepend=0)))


def _needs_all_rows(chain: Relational) -> bool:
    """Return whether a call of a chain is calibrated by its rows, which one wave must then have."""
    own = [one for one in chain.inputs if isinstance(one, Operator)]
    below = [
        stage for one in chain.inputs for stage in (one.inputs if isinstance(one, United | PairJoin) else (one.input,))
    ]
    return any(call.ai.by_rows for one in own for call in one.calls) or any(map(_needs_all_rows, below))
