"""Ask about each distinct pair of values: the operator for rows asks, and each pair is a row of it."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from substrait.plan_pb2 import Plan

from flightllm.observe.query_record import CallRecord
from flightllm.operators.ai_map import run_operator
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.joins.candidates import Candidates, folded
from flightllm.operators.joins.values import Ints, Values
from flightllm.operators.runtime import Runtime
from flightllm.plan.stages import Operator, PairJoin, Relational, StageCall

_BLOCK = 1 << 17
"""The most pairs whose texts are kept at once."""
_WAVE = 1 << 12
"""The most pairs that a LIMIT makes ready at once."""


@dataclass(frozen=True, slots=True)
class AskedPairs:
    """Asks a join's call about pairs of values."""

    join: PairJoin
    values: Values
    runtime: Runtime

    def matching(self, candidates: Candidates, tracker: LimitTracker, *, symmetric: bool) -> Generator[Ints]:
        """Yield the pairs for which the call is true, as the answers come.

        With `symmetric`, the answer about (a, b) is also that about (b, a).

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        count = len(self.values.found)

        def blocks(size: int) -> Iterator[Ints]:
            for block in candidates.blocks(size):
                kept = folded(block, candidates, count) if symmetric else block
                if len(kept):
                    yield kept

        if tracker.limited:
            tracker.rows_per_trial = candidates.rows / max(1, candidates.distinct)
            parts = iter([blocks(_WAVE)])
        else:
            parts = (iter([block]) for block in blocks(_BLOCK))
        for part in parts:
            rows = (self._rows(block) for block in part)
            with closing(run_operator(self._operator, rows, self.runtime, tracker)) as answered:
                for batch in answered:
                    found = np.asarray(batch.filter(pc.fill_null(batch.column(1), fill_value=False)).column(0))
                    yield both_ways(found, count) if symmetric else found

    def counters(self) -> CallRecord:
        """Return the call site of the join's call."""
        runtime, join = self.runtime, self.join
        if join.name not in runtime.counters:
            ai = join.ai
            site = runtime.record.call_site(ai.function, ai.text, join.name, ai.backend, ai.model)
            runtime.counters[join.name] = [site]
        return runtime.counters[join.name][0]

    @property
    def _operator(self) -> Operator:
        ai = self.join.ai
        fields = range(1, 1 + len(ai.fields))
        given = pa.schema([("pair", pa.int64()), *((f"c{i}", pa.string()) for i in fields)])
        schema = pa.schema([("pair", pa.int64()), ("answer", ai.type)])
        input_ = Relational(Plan(), (), given, streams=False, ordered=False)
        return Operator(self.join.table, schema, input_, 1, (StageCall(ai, tuple(fields), None),), in_waves=True)

    def _rows(self, pairs: Ints) -> pa.RecordBatch:
        columns = list(zip(*self.tuples(pairs), strict=True))
        arrays = [pa.array(pairs), *(pa.array(column, pa.string()) for column in columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._operator.input.schema)

    def tuples(self, pairs: Ints) -> list[tuple[str | None, ...]]:
        """Return the values of the call's fields in each pair."""
        found, count = self.values.found, len(self.values.found)
        places = self.join.places
        return [
            tuple(found[left][at] if is_left else found[right][at] for is_left, at in places)
            for left, right in zip((pairs // count).tolist(), (pairs % count).tolist(), strict=True)
        ]


def both_ways(pairs: Ints, count: int) -> Ints:
    """Return pairs and their reverses, each once."""
    return np.unique(np.concatenate([pairs, pairs % count * count + pairs // count]))
