"""Run a cut plan: its stages from the bottom up, batch by batch unless a stage needs all rows first."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from datafusion import SessionContext

from flightllm.datafusion.run import Batches
from flightllm.operators.ai_map import Runtime, numbered, run_operator
from flightllm.operators.demand import Demand
from flightllm.operators.group_waves import GroupWaves
from flightllm.plan.stages import Decider, GroupLimited, Joint, Limit, Numbered, Operator, Relational, United

_FIRST_ROWS, _MOST_ROWS = 16, 8_192
_SECONDS_PER_STEP = 0.2
"""When a streaming stage runs: once this many rows wait (few first, then more), or this long after its last run."""

_CLEARLY_LESS = 2
"""An input goes before another input only if it makes this many times fewer calls."""


def run(stage: Relational, runtime: Runtime, demand: Demand | None = None) -> Batches:
    """Yield the batches of `stage`, columns by position; closing the iterator stops everything below it.

    `demand` belongs to a LIMIT directly above the stage.
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
    if stage.inputs:
        _fill(stage, runtime)
        yield from _computed(stage, runtime)
    else:
        yield from runtime.begun(stage) or _computed(stage, runtime)


def _fill(stage: Relational, runtime: Runtime) -> None:
    """Fill the inputs of a stage, first those without AI calls; skip inputs whose rows cannot change the result.

    As in DataFusion: if one side of a join turns out to have no rows, the other side is not computed.
    """
    known = _Known(stage, runtime)
    for joint in stage.inputs:
        if not _asks(joint) and joint.table not in runtime.filled:
            _fill_joint(joint, runtime)
    if any(any(places) for places in stage.deciders):
        known.settle_empty()
    while (following := known.next()) is not None:
        _fill_joint(following, runtime)


def _fill_joint(joint: Joint, runtime: Runtime) -> None:
    runtime.filled.add(joint.table)
    runtime.spool(joint.table, joint.schema, _joint(joint, runtime))


class _Known:
    """Knowledge about the rows of a stage's inputs before any more calls run."""

    def __init__(self, stage: Relational, runtime: Runtime) -> None:
        self._stage = stage
        self._runtime = runtime
        self._settled: set[str] = set()
        """Inputs that have no rows, or whose rows change nothing: their tables stay empty."""
        self._empty: dict[int, bool] = {}

    def settle_empty(self) -> None:
        """Find the inputs that have no rows because no row reaches their AI operators."""
        for joint in self._stage.inputs:
            if joint.table not in self._runtime.filled and _is_empty(joint, self._runtime):
                self._settled.add(joint.table)

    def next(self) -> Joint | None:
        """Return the next input to fill; None if the other inputs' rows cannot change the stage's result.

        An input that cannot change the result stays empty, even if it decides about other inputs. That is safe: either
        those inputs change nothing either, or the input that decided about it also decides about them.
        """
        rest = [n for n, joint in enumerate(self._stage.inputs) if self._is_open(joint)]
        while needless := [n for n in rest if self._is_needless(n)]:
            self._settled |= {self._stage.inputs[n].table for n in needless}
            rest = [n for n in rest if n not in needless]
        return self._stage.inputs[self._first(rest)] if rest else None

    def _first(self, rest: Sequence[int]) -> int:
        """Return which input to fill: the first one that no other input can make needless.

        Two inputs can each make the other needless. Then the second goes first if it makes less than half of the calls.
        """
        if len(rest) == 1 or not self._stage.deciders:
            return rest[0]
        sparing = {n: {other for other in rest if self._can_spare(other, n)} for n in rest}
        free = [n for n in rest if all(n in sparing[other] for other in sparing[n])]
        first = next((n for n in free if any(n in others for others in sparing.values())), rest[0])
        calls = {n: _most_calls(self._stage.inputs[n], self._runtime) for n in {first, *sparing[first]}}
        least = min(sparing[first], key=calls.__getitem__, default=first)
        return least if _CLEARLY_LESS * calls[least] < calls[first] else first

    def _can_spare(self, number: int, other: int) -> bool:
        """Tell whether the rows of the input `number` can decide that those of `other` change nothing."""
        table = self._stage.inputs[number].table
        places = self._stage.deciders[other]
        return number != other and any(table in decider.tables for place in places for decider in place)

    def _is_open(self, joint: Joint) -> bool:
        return joint.table not in self._runtime.filled and joint.table not in self._settled

    def _is_needless(self, number: int) -> bool:
        places = self._stage.deciders
        return bool(places) and all(any(map(self._decides, deciders)) for deciders in places[number])

    def returns_nothing(self) -> bool:
        """Tell whether the stage has no rows; it can be true only if the rows of all open inputs change nothing."""
        if self.next() is not None:
            return False
        return not _any_rows(self._runtime.stage(self._runtime.context, self._stage.plan))

    def _decides(self, decider: Decider) -> bool:
        if not decider.tables <= self._runtime.filled | self._settled:
            return False
        if id(decider) not in self._empty:
            self._empty[id(decider)] = not _any_rows(self._runtime.stage(self._runtime.context, decider.plan))
        return self._empty[id(decider)]


def _is_empty(joint: Joint, runtime: Runtime) -> bool:
    """Tell whether a joint has no rows, as far as is known without any call; its first rows are kept for filling it."""
    stages = joint.inputs if isinstance(joint, United) else (joint.input,)
    return all(_returns_nothing(stage, runtime) for stage in stages)


def _returns_nothing(stage: Relational, runtime: Runtime) -> bool:
    if stage.streams:
        return _is_empty(stage.inputs[0], runtime)
    if not stage.inputs:
        return runtime.begin(stage, lambda: _computed(stage, runtime))
    known = _Known(stage, runtime)
    for joint in stage.inputs:
        if not _asks(joint) and joint.table not in runtime.filled:
            _fill_joint(joint, runtime)
    known.settle_empty()
    return known.returns_nothing()


def _most_calls(joint: Joint, runtime: Runtime) -> int:
    """Return about how many calls fill a joint if no filter drops a row, estimated from its first rows."""
    return _rows_and_calls(joint, runtime)[1]


def _rows_and_calls(joint: Joint, runtime: Runtime) -> tuple[int, int]:
    stages = joint.inputs if isinstance(joint, United) else (joint.input,)
    below = [_stage_rows_and_calls(stage, runtime) for stage in stages]
    rows, calls = sum(r for r, _ in below), sum(c for _, c in below)
    if isinstance(joint, Limit) and joint.limit is not None:
        rows = min(rows, joint.limit)
    return rows, calls + rows * _calls_per_row(joint)


def _calls_per_row(joint: Joint) -> int:
    match joint:
        case Operator():
            return len(joint.calls)
        case GroupLimited():
            chain, found = joint.chain, 0
            while chain.inputs:
                found += _calls_per_row(chain.inputs[0])
                chain = chain.inputs[0].input if not isinstance(chain.inputs[0], United) else chain.inputs[0].inputs[0]
            return found
        case _:
            return 0


def _stage_rows_and_calls(stage: Relational, runtime: Runtime) -> tuple[int, int]:
    if not stage.inputs:
        return runtime.first_rows(stage), 0
    below = [
        (runtime.drained.get(joint.table, 0), 0) if joint.table in runtime.filled else _rows_and_calls(joint, runtime)
        for joint in stage.inputs
    ]
    return max(r for r, _ in below), sum(c for _, c in below)


def _any_rows(batches: Batches) -> bool:
    with closing(batches):
        return any(batch.num_rows for batch in batches)


def _asks(joint: Joint) -> bool:
    """Tell whether an AI operator is part of the stages that fill a joint."""
    stages = joint.inputs if isinstance(joint, United) else (joint.input,)
    return isinstance(joint, Operator | GroupLimited) or any(_asks(below) for stage in stages for below in stage.inputs)


def _computed(stage: Relational, runtime: Runtime) -> Batches:
    yield from _rows(stage, runtime.ordered if stage.ordered else runtime.context, runtime)


def _rows(stage: Relational, context: SessionContext, runtime: Runtime) -> Batches:
    for batch in runtime.stage(context, stage.plan):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=stage.schema)


def _joint(joint: Joint, runtime: Runtime, demand: Demand | None = None, *, whole: bool = False) -> Batches:
    """Yield a joint's rows; `demand` is the need of the stage above, for all rows if that returns the `whole`."""
    above = demand or Demand()
    if isinstance(joint, United):
        yield from _united(joint, runtime, above)
        return
    below = Demand()
    if isinstance(joint, Limit) and joint.limit is not None:
        wanted = min(joint.limit, above.left) if whole and above.limited else joint.limit
        below = Demand(joint.offset + wanted)
    with closing(run(joint.input, runtime, below)) as rows:
        match joint:
            case Operator():
                yield from run_operator(joint, rows, runtime, above)
            case Limit():
                for batch in _limited(_counted(rows, below), joint.offset, joint.limit):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=joint.schema)
            case Numbered():
                yield from numbered(rows, joint.schema)
            case GroupLimited():
                yield from _group_limited(joint, rows, runtime)


def _group_limited(joint: GroupLimited, rows: Batches, runtime: Runtime) -> Batches:
    waves = GroupWaves(joint, rows, runtime)
    for wave in waves:
        runtime.hold(joint.wave, joint.wave_schema, [wave], runtime.context)
        with closing(run(joint.chain, runtime)) as found:
            for batch in found:
                waves.got(batch.column(joint.number))
                yield pa.RecordBatch.from_arrays(batch.columns, schema=joint.schema)


def _united(joint: United, runtime: Runtime, demand: Demand) -> Batches:
    """Run the inputs one after the other; under a LIMIT, each input fills what the earlier ones left open."""
    for input_ in joint.inputs:
        if demand.limited and not demand.left:
            return
        with closing(run(input_, runtime, demand)) as rows:
            for batch in rows:
                columns = [c.cast(kind) for c, kind in zip(batch.columns, joint.schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=joint.schema)


def _stream(stage: Relational, joint: Joint, runtime: Runtime, demand: Demand) -> Batches:
    with closing(_joint(joint, runtime, demand, whole=stage.whole)) as rows:
        if stage.picks is not None:
            for batch in rows:
                yield pa.RecordBatch.from_arrays([batch.column(c) for c in stage.picks], schema=stage.schema)
            return
        for batches in ([batch] for batch in rows) if demand.limited else _steps(rows):
            runtime.hold(joint.table, joint.schema, batches)
            yield from _rows(stage, runtime.ordered, runtime)


def _steps(rows: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches, so that running the stage on them costs little compared with making them."""
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
