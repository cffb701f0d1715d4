"""Run one AI operator: order its rows, answer their distinct argument tuples, and append one column per call."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext
from substrait.plan_pb2 import Plan

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches, Loop
from flightllm.errors import InternalError
from flightllm.functions.call import SEARCH, AICall
from flightllm.model.cost import Work
from flightllm.observe.query_record import CallRecord, QueryRecord, sums
from flightllm.operators.arrange import Arguments, Arranged, How, arrange
from flightllm.operators.asking import Asker
from flightllm.operators.backing import Backing
from flightllm.operators.batches import growing_sizes
from flightllm.operators.cache import Keys
from flightllm.operators.conditions import Conditions
from flightllm.operators.demand import Demand
from flightllm.operators.elsewhere import Elsewhere
from flightllm.operators.layout import fields_first, reach
from flightllm.operators.means import Means, Site
from flightllm.operators.ranking import Ranking, all_at_once
from flightllm.operators.searches import Searcher, run_searches
from flightllm.operators.spool import Room, Spooled, spool
from flightllm.plan.stages import BoundStep, Operator, register, stage_frame

_MOST_FIRST_ROWS = 8_192
"""The assumed row count of a stage whose rows were not looked at: one batch of DataFusion."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The services and state of one query's run, besides its plan."""

    context: SessionContext
    ordered: SessionContext
    """The same tables, in a context that keeps the order of rows where the plan does not sort."""
    backings: Mapping[str, Backing]
    """The engine and cache for calls, by `AICall.backing`; `searcher` answers searches."""
    searcher: Callable[[], Searcher]
    settings: Settings
    loop: Loop
    record: QueryRecord
    folder: Path
    """The query's spill folder; it is removed after the query."""
    room: Room
    """The space for rows between two stages."""
    elsewhere: Elsewhere | None = None
    """The runner for stages that can take more than their share of this process."""
    filled: set[str] = field(default_factory=set)
    """The joints that already hold their rows."""
    held: dict[str, tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]] = field(default_factory=dict)
    """The rows of joints, by table."""
    drained: dict[str, int] = field(default_factory=dict)
    """The row counts of the joints that are filled, by table."""
    bounded: dict[int, bool] = field(default_factory=dict)
    """Whether a stage, by the identity of its plan, runs in this process."""
    counters: dict[str, list[CallRecord]] = field(default_factory=dict)
    """The call sites of operators that began, by name. Some operators run once for each wave of rows."""

    _first: dict[int, int] = field(default_factory=dict)
    """The row count of the first batch of each stage that was begun, by the stage's identity."""
    _begun: dict[int, tuple[object, Batches]] = field(default_factory=dict)
    """The stages whose first rows were looked at, by identity, with all of their rows."""

    def begin(self, stage: object, rows: Callable[[], Batches]) -> bool:
        """Run a stage up to its first row, and tell whether it has no rows; `begun` returns them from that row on."""
        if id(stage) not in self._begun:
            batches = rows()
            first = next((batch for batch in batches if batch.num_rows), None)
            self._begun[id(stage)] = (stage, _from(first, batches))
            self._first[id(stage)] = 0 if first is None else first.num_rows
        return not self._first[id(stage)]

    def first_rows(self, stage: object) -> int:
        """Return the row count of a stage's first batch; for a stage not begun, the most rows that a batch can have."""
        return self._first.get(id(stage), _MOST_FIRST_ROWS)

    def begun(self, stage: object) -> Batches | None:
        """Take over the rows of a stage that was begun; None if it was not begun."""
        found = self._begun.pop(id(stage), None)
        return None if found is None else found[1]

    def close(self) -> None:
        """Stop the stages that were begun but are not needed."""
        for _, batches in self._begun.values():
            batches.close()
        self._begun.clear()

    @property
    def cancelled(self) -> Callable[[], bool]:
        """Tell whether the query was cancelled."""
        return self.record.cancelled.is_set

    def spool(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Spooled:
        """Drain `batches` into a joint."""
        kept = spool(
            self.context,
            table,
            schema,
            batches,
            room=self.room,
            folder=self.folder,
            cancelled=self.cancelled,
        )
        self.held[table] = (schema, kept.batches or [] if kept.path is None else kept.path)
        self.drained[table] = kept.rows
        return kept

    def hold(
        self,
        table: str,
        schema: pa.Schema,
        batches: Sequence[pa.RecordBatch],
        context: SessionContext | None = None,
    ) -> None:
        """Put batches into a joint; by default the joint is read in the order of its rows."""
        register(context or self.ordered, table, schema, batches)
        self.held[table] = (schema, batches)

    def stage(self, context: SessionContext, plan: Plan) -> Batches:
        """Run the plan of a stage in one of the query's contexts."""
        frame = stage_frame(context, plan)
        if self.elsewhere is None:
            return self.loop.stream(frame, self.cancelled)
        if id(plan) not in self.bounded:
            self.bounded[id(plan)] = self.elsewhere.bounded(context, frame)
        if self.bounded[id(plan)]:
            return self.loop.stream(frame, self.cancelled)
        return self.elsewhere.stream(context, self.cancelled, plan, self.held)

    def rows(self, spooled: Spooled, table: str) -> Iterable[pa.RecordBatch]:
        """Return the rows that were drained into a joint, in their order."""
        return self.sql(f"SELECT * FROM {table}") if spooled.batches is None else spooled.batches

    def sql(self, text: str) -> Batches:
        """Run SQL over joints."""
        return self.loop.stream(self.context.sql(text), self.cancelled)


def _from(first: pa.RecordBatch | None, rest: Batches) -> Batches:
    with closing(rest):
        if first is not None:
            yield first
            yield from rest


def run_operator(operator: Operator, rows: Batches, runtime: Runtime, demand: Demand) -> Batches:
    """Yield the operator's rows with its answers, as the answers come.

    Rows come in the order of the prompts, or in their own order if the query needs it. Under a LIMIT, `demand` sizes
    the waves in which the operator asks. Rows that have an order, or come from another operator, are taken in waves.
    Other rows are sorted first.
    """
    name = operator.table.rsplit(".", 1)[-1]
    counters = runtime.counters.get(name)
    if counters is None:
        counters = runtime.counters[name] = [
            runtime.record.call_site(c.ai.function, c.ai.text, name, c.ai.backend, c.ai.model) for c in operator.calls
        ]
    functions = ", ".join(call.ai.function for call in operator.calls)
    span = runtime.record.span.child("ai_operator", operator=name, functions=functions)
    try:
        yield from _waved(operator, rows, runtime, counters, demand)
    finally:
        span.end(None, **sums(call.counts() for call in counters))


def _waved(
    operator: Operator, rows: Batches, runtime: Runtime, counters: Sequence[CallRecord], demand: Demand
) -> Batches:
    if not demand.limited or not (operator.ordered or _asks_below(operator)):
        yield from _run(operator, rows, runtime, counters, demand)
        return
    for wave in _waves(rows, demand):
        yield from _run(operator, iter([wave]), runtime, counters, Demand())
        demand.seen(wave.num_rows)


def _asks_below(operator: Operator) -> bool:
    return operator.input.streams and isinstance(operator.input.inputs[0], Operator)


def _waves(rows: Iterator[pa.RecordBatch], demand: Demand) -> Iterator[pa.RecordBatch]:
    """Cut rows into waves; a wave has as many rows as the demand has room for."""
    held: list[pa.RecordBatch] = []
    while True:
        room = demand.room()
        while sum(map(len, held)) < room and (batch := next(rows, None)) is not None:
            held.append(batch)
        if not held:
            return
        whole = pa.Table.from_batches(held).combine_chunks().to_batches()
        if not whole:
            return
        yield whole[0].slice(0, room)
        held = [whole[0].slice(room)] if len(whole[0]) > room else []


def _run(
    operator: Operator, rows: Iterable[pa.RecordBatch], runtime: Runtime, counters: Sequence[CallRecord], demand: Demand
) -> Batches:
    """Run the operator over all of `rows`, with one pass for all calls of the same arguments.

    Each further pass reads the result of the pass before it; the last pass streams. With steps there is one pass.
    """
    source = f"{operator.table}_rows"
    schema = operator.input.schema
    if operator.ordered:
        schema = schema.append(pa.field("position", pa.int64()))
        rows = numbered(rows, schema)
    spooled = runtime.spool(source, schema, rows)
    passes = _passes(operator)
    for number, members in enumerate(passes):
        schema = pa.schema([*schema, *(pa.field(f"a{i}", operator.calls[i].ai.type) for i in members)])
        last = number + 1 == len(passes)
        above = demand if last else Demand()
        if operator.calls[members[0]].ai.backend == SEARCH:
            batches = _search(operator, members, runtime, counters, runtime.rows(spooled, source), schema, above)
        else:
            batches = _Pass(operator, members, runtime, counters).run(spooled, source, schema, above)
        if not last:
            source = f"{operator.table}_rows{number}"
            spooled = runtime.spool(source, schema, batches)
    answered = [i for members in passes for i in members]
    first = len(schema) - len(answered)
    kept = [*range(operator.width), *(first + answered.index(i) for i in range(len(operator.calls)))]
    if operator.ordered:
        done = f"{operator.table}_done"
        runtime.spool(done, schema, batches)
        batches = runtime.sql(f"SELECT * FROM {done} ORDER BY position")
    with closing(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(i) for i in kept], schema=operator.schema)


def _search(
    operator: Operator,
    members: Sequence[int],
    runtime: Runtime,
    counters: Sequence[CallRecord],
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    demand: Demand,
) -> Batches:
    """Yield the rows with one column for each of the searches `members`."""
    searcher = runtime.searcher()
    calls = [(operator.calls[i], searcher.open(operator.calls[i].ai.instruction), counters[i]) for i in members]
    yield from run_searches(calls, rows, schema, demand, runtime.cancelled)


def _passes(operator: Operator) -> list[tuple[int, ...]]:
    """Group calls into passes: calls over the same arguments share a pass, and so do calls that filter for each other.

    All calls of a pass have the same backing.
    """

    def alike(place: int) -> tuple[str, tuple[int, ...]]:
        return operator.calls[place].ai.backing, operator.calls[place].arguments

    if operator.steps:
        return [tuple(range(len(operator.calls)))]
    return [tuple(g) for _, g in groupby(sorted(range(len(operator.calls)), key=alike), key=alike)]


def numbered(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """Append the number of each row as a column, which is the last field of `schema`."""
    start = 0
    for batch in rows:
        position = pa.array(range(start, start + batch.num_rows), pa.int64())
        start += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns[: len(schema) - 1], position], schema=schema)


class _Pass:
    """Some calls of an operator, and one sorted pass over its rows that answers them."""

    def __init__(
        self, operator: Operator, members: tuple[int, ...], runtime: Runtime, counters: Sequence[CallRecord]
    ) -> None:
        self._operator = operator
        self._calls = [operator.calls[i] for i in members]
        self._counters = [counters[i] for i in members]
        self._runtime = runtime
        self._backing = runtime.backings[self._calls[0].ai.backing]
        self._columns = tuple(dict.fromkeys(a for call in self._calls for a in call.arguments))
        self._cues = [self._backing.engine.count_tokens(self._without_fields(call.ai)) for call in self._calls]
        """The tokens of each call's prompt without fields."""

    def _without_fields(self, call: AICall) -> str:
        return call.prompt([], prompt_format=self._backing.prompt_format)

    def run(self, spooled: Spooled, table: str, schema: pa.Schema, demand: Demand) -> Batches:
        """Yield the rows of `table` with one column per call; `schema` names all columns."""
        runtime = self._runtime
        arranged = arrange(spooled, table, self._checked(schema), self._arguments(), self._how(demand), runtime.sql)
        demand.rows_per_trial = spooled.rows / max(1, arranged.distinct) if runtime.settings.dedup else 1.0
        ahead = self._fields_first(arranged)
        sites = [self._site(i, arranged, fields_first=ahead) for i in range(len(self._calls))]
        steps, ranking = self._steps(arranged)
        self._note(spooled.rows, arranged, fields_first=ahead)
        expected = not demand.limited and len(steps) == len(steps[0].rounds) == 1
        if expected:
            for site in sites:
                site.counters.add(prompts_expected=arranged.distinct)
        conditions = Conditions(
            self._operator.schema, self._operator.width, runtime.hold, partial(runtime.stage, runtime.ordered)
        )
        means = Means(
            self._backing,
            self._backing.flights.open(),
            conditions,
            demand,
            runtime.settings.dedup,
            expected,
        )
        calls = range(len(self._calls))
        with closing(Asker(means, sites, steps, ranking).answer(arranged.units, runtime.cancelled)) as done:
            for unit in done:
                yield unit.finish(calls, schema)

    def _checked(self, schema: pa.Schema) -> pa.Schema:
        rows = pa.schema(list(schema)[: len(schema) - len(self._calls)])
        if any(not pa.types.is_string(rows.field(a).type) for a in self._columns):
            kinds = [rows.field(a).type for a in self._columns]
            raise InternalError(f"arguments of {self._calls[0].ai.text} are {kinds}, not text")
        return rows

    def _arguments(self) -> Arguments:
        names: dict[int, str] = {}
        for call in self._calls:
            for name, column in zip(call.ai.fields, call.arguments, strict=False):
                names.setdefault(column, name)
        readers = tuple(sum(c in call.arguments for call in self._calls) for c in self._columns)
        lists = frozenset(call.arguments[field] for call in self._calls for field in call.ai.lists)
        return Arguments(self._columns, tuple(names.get(c, "") for c in self._columns), readers, lists)

    def _how(self, demand: Demand) -> How:
        settings, growing = self._runtime.settings, growing_sizes()

        def size() -> int:
            return min(growing(), demand.room()) if demand.limited else growing()

        return How(
            settings.ordering,
            settings.dedup,
            self._backing.engine,
            self._backing.window,
            0.0 if settings.layout == "fields" else min(self._cues),
            size,
        )

    def _fields_first(self, arranged: Arranged) -> bool:
        """Tell whether prompts begin with the fields; calls of different fields would share nothing that way."""
        layout = self._runtime.settings.layout
        alike = len({(c.arguments, c.ai.fields) for c in self._calls}) == 1
        if layout != "auto" or not alike or arranged.ordering is None:
            return layout == "fields"
        filters = [self._filters_before(i) for i in range(len(self._calls))]
        return fields_first(
            arranged.ordering, self._cues, reach(filters), self._backing.engine.prefix_cache, self._backing.window
        )

    def _filters_before(self, call: int) -> int:
        steps = self._operator.steps
        home = next((n for n, step in enumerate(steps) if any(call in r for r in step.rounds)), 0)
        return sum(step.condition is not None for step in steps[:home])

    def _steps(self, arranged: Arranged) -> tuple[tuple[BoundStep, ...], Ranking]:
        if not self._operator.steps:
            return all_at_once(len(self._calls))
        total = arranged.ordering.total_tokens if arranged.ordering else 0.0
        read = sum(len(set(call.arguments)) for call in self._calls)
        field = total / max(1, arranged.distinct * read)
        expected = []
        for step in self._operator.steps:
            calls = [c for r in step.rounds for c in r]
            tokens = sum(self._cues[c] + field * len(set(self._calls[c].arguments)) for c in calls)
            expected.append(Work(len(calls), round(tokens), 0, len(calls)))
        return self._operator.steps, Ranking(self._operator.steps, expected, self._backing.costs.weigher())

    def _site(self, place: int, arranged: Arranged, *, fields_first: bool) -> Site:
        call = self._calls[place]
        return Site(
            call.ai,
            tuple(arranged.places[self._columns.index(a)] for a in call.arguments[: len(call.ai.fields)]),
            arranged.order,
            call.when,
            call.guard,
            Keys(call.ai, self._backing.revision),
            self._counters[place],
            fields_first,
            self._backing.prompt_format,
        )

    def _note(self, rows: int, arranged: Arranged, *, fields_first: bool) -> None:
        ordering = "fixed, by DataFusion" if arranged.ordering is None else arranged.ordering.method
        for counters in self._counters:
            tuples = arranged.distinct if self._runtime.settings.dedup else rows
            layout = "fields first" if fields_first else "instruction first"
            counters.note(rows, tuples, ordering=ordering, layout=layout)
