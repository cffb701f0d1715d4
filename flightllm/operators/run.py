"""Run a cut plan: its stages bottom-up, and batch by batch unless a stage needs all rows first."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from math import prod

import pyarrow as pa
from datafusion import SessionContext

from flightllm.datafusion.run import Batches
from flightllm.errors import UnansweredError
from flightllm.operators.ai_map import run_operator
from flightllm.operators.call_context import LimitTracker
from flightllm.operators.group_waves import GroupWaves
from flightllm.operators.joins.run import run_join
from flightllm.operators.runtime import Runtime, with_row_ids
from flightllm.plan.stages import (
    Decider,
    GroupLimited,
    Limit,
    Operator,
    PairJoin,
    Relational,
    RowIdStage,
    StageInput,
    United,
)

_FIRST_ROWS, _MOST_ROWS = 16, 8_192
"""A streaming stage runs when this many rows wait. The number doubles from run to run."""
_SECONDS_PER_STEP = 0.2
"""A streaming stage runs at the latest this long after its last run."""

_CLEARLY_LESS = 2
"""A later input is filled first if the first input needs more than this many times as many calls."""


def run(stage: Relational, runtime: Runtime, name: str, tracker: LimitTracker | None = None) -> Batches:
    """Yield the batches of `stage`, columns by position; closing the iterator stops everything below it.

    `name` is the stage's name in the plan. `tracker` belongs to a LIMIT directly above the stage.
    """
    span, rows = runtime.record.span.child("stage", streams=stage.streams), 0
    try:
        for batch in _run(stage, runtime, tracker):
            rows += batch.num_rows
            runtime.count_rows(name, batch.num_rows)
            yield batch
    finally:
        span.end(rows=rows)


def _run(stage: Relational, runtime: Runtime, tracker: LimitTracker | None) -> Batches:
    if stage.streams:
        yield from _stream(stage, stage.inputs[0], runtime, tracker or LimitTracker())
        return
    if stage.inputs:
        _fill(stage, runtime)
        yield from _computed(stage, runtime)
    else:
        yield from runtime.begun(stage) or _computed(stage, runtime)


def _fill(stage: Relational, runtime: Runtime) -> None:
    """Fill the inputs of a stage, those without AI calls first. Skip the inputs whose rows cannot change the result.

    Example: if one side of an inner join has no rows, the AI calls on the other side are not made.
    """
    known = _Known(stage, runtime)
    for stage_input in stage.inputs:
        if not _asks(stage_input) and stage_input.table not in runtime.filled:
            _fill_input(stage_input, runtime)
    if any(any(places) for places in stage.deciders):
        known.settle_empty()
    lacking: UnansweredError | None = None
    while (following := known.next()) is not None:
        try:
            _fill_input(following, runtime)
        except UnansweredError as error:  # a deferred statement lists the prompts of the other inputs in this pass too
            if known.decides_by(following):
                raise
            lacking = error
    if lacking is not None:
        raise lacking


def _fill_input(stage_input: StageInput, runtime: Runtime) -> None:
    runtime.filled.add(stage_input.table)
    runtime.spool(stage_input.table, stage_input.schema, _stage_input(stage_input, runtime))


class _Known:
    """Decide which input of a stage to fill next, from facts that need no further calls."""

    def __init__(self, stage: Relational, runtime: Runtime) -> None:
        self._stage = stage
        self._runtime = runtime
        self._settled: set[str] = set()
        """The tables of inputs that have no rows, or whose rows change nothing. These tables stay empty."""
        self._empty: dict[int, bool] = {}

    def settle_empty(self) -> None:
        """Find the inputs without rows: no row reaches their AI operators."""
        for stage_input in self._stage.inputs:
            if stage_input.table not in self._runtime.filled and _is_empty(stage_input, self._runtime):
                self._settled.add(stage_input.table)

    def next(self) -> StageInput | None:
        """Return the next input to fill, or None if the rows of the other inputs cannot change the result.

        An input whose rows change nothing stays empty, and then counts as an empty input for the others. That is safe.
        If it makes another input needless, that input changes nothing either, or has the same decider.
        """
        rest = [n for n, stage_input in enumerate(self._stage.inputs) if self._is_open(stage_input)]
        while needless := [n for n in rest if self._is_needless(n)]:
            self._settled |= {self._stage.inputs[n].table for n in needless}
            rest = [n for n in rest if n not in needless]
        return self._stage.inputs[self._first(rest)] if rest else None

    def _first(self, rest: Sequence[int]) -> int:
        """Return the input to fill first: the first one that no other input can make needless.

        If two inputs can make each other needless, the second is filled first if it needs less than half as many calls.
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
        """Return whether the input `number`, if it has no rows, can make the rows of `other` needless."""
        table = self._stage.inputs[number].table
        places = self._stage.deciders[other]
        return number != other and any(table in decider.tables for place in places for decider in place)

    def decides_by(self, stage_input: StageInput) -> bool:
        """Return whether the rows of an input can make other inputs needless."""
        places = (place for places in self._stage.deciders for place in places)
        return any(stage_input.table in decider.tables for place in places for decider in place)

    def _is_open(self, stage_input: StageInput) -> bool:
        return stage_input.table not in self._runtime.filled and stage_input.table not in self._settled

    def _is_needless(self, number: int) -> bool:
        places = self._stage.deciders
        return bool(places) and all(any(map(self._decides, deciders)) for deciders in places[number])

    def returns_nothing(self) -> bool:
        """Return whether the stage has no rows. That is known only if the rows of all open inputs change nothing."""
        if self.next() is not None:
            return False
        return not _any_rows(self._runtime.stage(self._runtime.context, self._stage.plan))

    def _decides(self, decider: Decider) -> bool:
        if not decider.tables <= self._runtime.filled | self._settled:
            return False
        if id(decider) not in self._empty:
            self._empty[id(decider)] = not _any_rows(self._runtime.stage(self._runtime.context, decider.plan))
        return self._empty[id(decider)]


def _is_empty(stage_input: StageInput, runtime: Runtime) -> bool:
    """Return whether a stage input has no rows, as far as that is known without a call. Keep its first rows."""
    nothing = (_returns_nothing(stage, runtime) for stage in _below(stage_input))
    return any(nothing) if isinstance(stage_input, PairJoin) else all(nothing)


def _below(stage_input: StageInput) -> tuple[Relational, ...]:
    return stage_input.inputs if isinstance(stage_input, United | PairJoin) else (stage_input.input,)


def _returns_nothing(stage: Relational, runtime: Runtime) -> bool:
    if stage.streams:
        return _is_empty(stage.inputs[0], runtime)
    if not stage.inputs:
        return runtime.begin(stage, lambda: _computed(stage, runtime))
    known = _Known(stage, runtime)
    for stage_input in stage.inputs:
        if not _asks(stage_input) and stage_input.table not in runtime.filled:
            _fill_input(stage_input, runtime)
    known.settle_empty()
    return known.returns_nothing()


def _most_calls(stage_input: StageInput, runtime: Runtime) -> int:
    """Estimate the calls that fill a stage input, from its first rows and as if no filter dropped a row."""
    return _rows_and_calls(stage_input, runtime)[1]


def _rows_and_calls(stage_input: StageInput, runtime: Runtime) -> tuple[int, int]:
    stages = _below(stage_input)
    below = [_stage_rows_and_calls(stage, runtime) for stage in stages]
    rows, calls = sum(r for r, _ in below), sum(c for _, c in below)
    if isinstance(stage_input, PairJoin):
        rows = prod(r for r, _ in below)
    if isinstance(stage_input, Limit) and stage_input.limit is not None:
        rows = min(rows, stage_input.limit)
    return rows, calls + rows * _calls_per_row(stage_input)


def _calls_per_row(stage_input: StageInput) -> int:
    match stage_input:
        case Operator():
            return len(stage_input.calls)
        case PairJoin():
            return 1
        case GroupLimited():
            chain, found = stage_input.chain, 0
            while chain.inputs:
                found += _calls_per_row(chain.inputs[0])
                chain = _below(chain.inputs[0])[0]
            return found
        case _:
            return 0


def _stage_rows_and_calls(stage: Relational, runtime: Runtime) -> tuple[int, int]:
    if not stage.inputs:
        return runtime.first_rows(stage), 0
    below = [
        (runtime.drained.get(stage_input.table, 0), 0)
        if stage_input.table in runtime.filled
        else _rows_and_calls(stage_input, runtime)
        for stage_input in stage.inputs
    ]
    return max(r for r, _ in below), sum(c for _, c in below)


def _any_rows(batches: Batches) -> bool:
    with closing(batches):
        return any(batch.num_rows for batch in batches)


def _asks(stage_input: StageInput) -> bool:
    """Return whether an AI operator, at any depth, fills a stage input."""
    stages = _below(stage_input)
    return isinstance(stage_input, Operator | PairJoin | GroupLimited) or any(
        _asks(below) for stage in stages for below in stage.inputs
    )


def _computed(stage: Relational, runtime: Runtime) -> Batches:
    yield from _rows(stage, runtime.ordered if stage.ordered else runtime.context, runtime)


def _rows(stage: Relational, context: SessionContext, runtime: Runtime) -> Batches:
    for batch in runtime.stage(context, stage.plan):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=stage.schema)


def _stage_input(
    stage_input: StageInput, runtime: Runtime, tracker: LimitTracker | None = None, *, whole: bool = False
) -> Batches:
    """Yield the rows of a stage input, and count them; see `_made`."""
    with closing(_made(stage_input, runtime, tracker, whole=whole)) as rows:
        for batch in rows:
            runtime.count_rows(stage_input.name, batch.num_rows)
            yield batch


def _made(stage_input: StageInput, runtime: Runtime, tracker: LimitTracker | None, *, whole: bool) -> Batches:
    """Make the rows of a stage input.

    `tracker` counts the rows that the stage above must still return; `whole` says that this stage drops no row.
    """
    above = tracker or LimitTracker()
    if isinstance(stage_input, United):
        yield from _united(stage_input, runtime, above)
        return
    if isinstance(stage_input, PairJoin):
        left, right = (
            partial(run, input_, runtime, f"{side} of {stage_input.name}")
            for side, input_ in zip(("left", "right"), stage_input.inputs, strict=True)
        )
        yield from run_join(stage_input, left, right, runtime, above)
        return
    below = LimitTracker()
    if isinstance(stage_input, Limit) and stage_input.limit is not None:
        wanted = min(stage_input.limit, above.rows_left) if whole and above.limited else stage_input.limit
        below = LimitTracker(stage_input.offset + wanted, stage_input.offset)
    with closing(run(stage_input.input, runtime, f"below {stage_input.name}", below)) as rows:
        match stage_input:
            case Operator():
                yield from run_operator(stage_input, rows, runtime, above)
            case Limit():
                for batch in _limited(_counted(rows, below), stage_input.offset, stage_input.limit):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=stage_input.schema)
            case RowIdStage():
                yield from with_row_ids(rows, stage_input.schema)
            case GroupLimited():
                yield from _group_limited(stage_input, rows, runtime)


def _group_limited(stage_input: GroupLimited, rows: Batches, runtime: Runtime) -> Batches:
    waves = GroupWaves(stage_input, rows, runtime)
    for wave in waves:
        runtime.hold(stage_input.wave, stage_input.wave_schema, [wave], runtime.context)
        with closing(run(stage_input.chain, runtime, f"of {stage_input.name}")) as found:
            for batch in found:
                waves.got(batch)
                yield pa.RecordBatch.from_arrays(batch.columns, schema=stage_input.schema)


def _united(stage_input: United, runtime: Runtime, tracker: LimitTracker) -> Batches:
    """Run the inputs in turn. Under a LIMIT, each input must return only the rows that are still missing."""
    lacking: UnansweredError | None = None
    for number, input_ in enumerate(stage_input.inputs, start=1):
        if tracker.limited and not tracker.rows_left:
            return
        try:
            with closing(run(input_, runtime, f"{number} below {stage_input.name}", tracker)) as rows:
                for batch in rows:
                    columns = [c.cast(kind) for c, kind in zip(batch.columns, stage_input.schema.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=stage_input.schema)
        except UnansweredError as error:
            if tracker.limited:  # the answers decide how many rows the other inputs must return
                raise
            lacking = error
    if lacking is not None:
        raise lacking


def _stream(stage: Relational, stage_input: StageInput, runtime: Runtime, tracker: LimitTracker) -> Batches:
    with closing(_stage_input(stage_input, runtime, tracker, whole=stage.whole)) as rows:
        if stage.picks is not None:
            for batch in rows:
                yield pa.RecordBatch.from_arrays([batch.column(c) for c in stage.picks], schema=stage.schema)
            return
        for batches in ([batch] for batch in rows) if tracker.limited else _steps(rows):
            runtime.hold(stage_input.table, stage_input.schema, batches)
            yield from _rows(stage, runtime.ordered, runtime)


def _steps(rows: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches, so that the cost of running the stage is small beside the cost of the rows."""
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


def _counted(rows: Iterator[pa.RecordBatch], tracker: LimitTracker) -> Batches:
    for batch in rows:
        tracker.add_rows(batch.num_rows)
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
