"""Run a join by a yes/no call: read each side once, find the matching pairs of values, and return their rows."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from flightllm.datafusion.run import Batches
from flightllm.errors import AICallError
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.joins.candidates import AllPairs, Candidates, merged
from flightllm.operators.joins.exact import AskedPairs
from flightllm.operators.joins.values import Ints, Values, numbered
from flightllm.operators.joins.ways import Ways
from flightllm.operators.runtime import Runtime
from flightllm.plan.stages import PairJoin

_FIRST_PAIRS, _MOST_PAIRS = 64, 8_192
"""So many matching pairs of values become rows at once; the number doubles."""


def run_join(
    join: PairJoin, left: Callable[[], Batches], right: Callable[[], Batches], runtime: Runtime, tracker: LimitTracker
) -> Batches:
    """Yield the rows of both sides that match, as the answers come.

    Raises:
        AICallError: the call says that it is symmetric, and the sides do not have the same number of fields.
        EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    wish = join.ai.join
    if wish is not None and wish.symmetric and len(join.sides[0]) != len(join.sides[1]):
        raise AICallError(
            f"{join.ai.text}: symmetric => true needs as many fields of one table as of the other, not"
            f" {len(join.sides[0])} and {len(join.sides[1])}"
        )
    values = Values()
    for side, rows in enumerate((left, right)):
        with closing(rows()) as batches:
            runtime.spool(join.tables[side], join.schemas[side], numbered(join, side, batches, values))
        if not values.rows[side]:
            return
    values.settle()
    candidates = _candidates(join, values, runtime)
    if not candidates.distinct:
        return
    asked = AskedPairs(join, values, runtime)
    symmetric = wish is not None and wish.symmetric
    if wish is not None and wish.targets is not None:
        matching = Ways(asked, candidates, wish, asked.counters()).matching(tracker)
    else:
        matching = asked.matching(candidates, tracker, symmetric=symmetric)
    with closing(matching) as found:
        yield from _rows(join, found, values, runtime, at_once=tracker.limited)


def _candidates(join: PairJoin, values: Values, runtime: Runtime) -> Candidates:
    if join.candidates is not None:
        with closing(runtime.stage(runtime.context, join.candidates)) as batches:
            return merged(batches, values)
    left, right = (np.flatnonzero(values.counts(side)) for side in (0, 1))
    return AllPairs(left, right, values)


def _rows(join: PairJoin, found: Iterator[Ints], values: Values, runtime: Runtime, *, at_once: bool) -> Batches:
    """Yield the rows of matching pairs of values."""
    waiting: list[Ints] = []
    held, enough = 0, _FIRST_PAIRS
    for pairs in found:
        waiting.append(pairs)
        held += len(pairs)
        if held >= enough or (at_once and held):
            yield from _joined(join, np.concatenate(waiting), values, runtime)
            waiting, held, enough = [], 0, min(2 * enough, _MOST_PAIRS)
    if held:
        yield from _joined(join, np.concatenate(waiting), values, runtime)


def _joined(join: PairJoin, pairs: Ints, values: Values, runtime: Runtime) -> Batches:
    count = len(values.found)
    for start in range(0, len(pairs), _MOST_PAIRS):
        part = pairs[start : start + _MOST_PAIRS]
        numbers = [pa.array(values.read[part // count]), pa.array(values.read[part % count])]
        batch = pa.RecordBatch.from_arrays(numbers, schema=join.pairs_schema)
        runtime.hold(join.pairs, join.pairs_schema, [batch], runtime.context)
        for rows in runtime.stage(runtime.context, join.rows):
            yield pa.RecordBatch.from_arrays(rows.columns, schema=join.schema)
