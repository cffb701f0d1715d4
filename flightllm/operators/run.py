"""Run a cut plan: its stages bottom-up, batch by batch wherever nothing needs all rows first."""

import time
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
from datafusion import SessionContext

from flightllm.operators.ai_map import Runtime, numbered, run_operator
from flightllm.operators.demand import Demand
from flightllm.operators.relational import Batches
from flightllm.plan.stages import Joint, Limit, Numbered, Operator, Relational, register, stage_frame

_FIRST_ROWS, _MOST_ROWS = 16, 8_192
_SECONDS_PER_STEP = 0.2
"""A stage that streams is run when so many rows wait, first few and then more, or so long after its last run."""


def run(stage: Relational, runtime: Runtime, demand: Demand | None = None) -> Batches:
    """Yield the batches of `stage`, columns by position; closing the iterator stops everything below it.

    `demand` is that of a LIMIT right above.
    """
    span, rows = runtime.record.span.child("stage", streams=stage.streams), 0
    try:
        for batch in _run(stage, runtime, demand):
            rows += batch.num_rows
            yield batch
    finally:
        span.end(rows=rows)


def _run(stage: Relational, runtime: Runtime, demand: Demand | None) -> Batches:
    if stage.streams:
        yield from _stream(stage, stage.inputs[0], runtime, demand or Demand())
        return
    for joint in stage.inputs:
        if joint.table not in runtime.filled:
            runtime.filled.add(joint.table)
            runtime.spool(joint.table, joint.schema, _joint(joint, runtime))
    yield from _rows(stage, runtime.ordered if stage.ordered else runtime.context, runtime)


def _rows(stage: Relational, context: SessionContext, runtime: Runtime) -> Batches:
    for batch in runtime.loop.stream(stage_frame(context, stage.plan), runtime.cancelled):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=stage.schema)


def _joint(joint: Joint, runtime: Runtime, demand: Demand | None = None) -> Batches:
    above = demand or Demand()
    below = Demand()
    if isinstance(joint, Limit) and joint.limit is not None:
        below = Demand(joint.offset + joint.limit)
    with closing(run(joint.input, runtime, below)) as rows:
        match joint:
            case Operator():
                yield from run_operator(joint, rows, runtime, above)
            case Limit():
                for batch in _limited(_counted(rows, below), joint.offset, joint.limit):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=joint.schema)
            case Numbered():
                yield from numbered(rows, joint.schema)


def _stream(stage: Relational, joint: Joint, runtime: Runtime, demand: Demand) -> Batches:
    with closing(_joint(joint, runtime, demand)) as rows:
        if stage.picks is not None:
            for batch in rows:
                yield pa.RecordBatch.from_arrays([batch.column(c) for c in stage.picks], schema=stage.schema)
            return
        for batches in ([batch] for batch in rows) if demand.limited else _steps(rows):
            register(runtime.ordered, joint.table, joint.schema, batches)
            yield from _rows(stage, runtime.ordered, runtime)


def _steps(rows: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches so that running the stage on them costs little beside making them."""
    waiting: list[pa.RecordBatch] = []
    held, enough = 0, _FIRST_ROWS
    last = time.monotonic()
    for batch in rows:
        waiting.append(batch)
        held += batch.num_rows
        if held >= enough or time.monotonic() - last >= _SECONDS_PER_STEP:
            yield waiting
            waiting, held, last = [], 0, time.monotonic()
            enough = min(2 * enough, _MOST_ROWS)
    if waiting:
        yield waiting


def _counted(rows: Iterator[pa.RecordBatch], demand: Demand) -> Batches:
    for batch in rows:
        demand.got(batch.num_rows)
        yield batch


def _limited(rows: Iterator[pa.RecordBatch], offset: int, limit: int | None) -> Batches:
    left = limit
    if left == 0:
        return
    for batch in rows:
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        kept = batch.slice(skipped, left)
        if kept.num_rows:
            left = None if left is None else left - kept.num_rows
            yield kept
        if left == 0:
            return
