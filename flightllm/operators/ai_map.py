"""Run one AI operator: order its rows, answer their distinct argument tuples, and append one column per call."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

from flightllm.errors import InternalError
from flightllm.llm.base import Engine
from flightllm.operators.asking import Asker, Site
from flightllm.operators.batches import units
from flightllm.operators.cache import AnswerCache, Keys
from flightllm.operators.relational import Batches, Loop
from flightllm.operators.spool import spool
from flightllm.order.fixed import fixed_order
from flightllm.plan.stages import BoundCall, Operator
from flightllm.system import QueryRecord


@dataclass(frozen=True, slots=True)
class Runtime:
    """What running a query needs besides its plan; one per query."""

    context: SessionContext
    ordered: SessionContext
    """The same tables, in a context that keeps the order of rows where the plan does not sort."""
    engine: Engine
    cache: AnswerCache
    loop: Loop
    record: QueryRecord
    folder: Path
    """Spill folder of this query; removed with it."""
    window: int
    """Prompts the engine keeps in flight."""
    memory_bytes: int
    """Rows between two stages go to disk beyond this."""
    filled: set[str] = field(default_factory=set)
    """The joints that hold their rows already."""

    @property
    def cancelled(self) -> Callable[[], bool]:
        """Tell whether the query was cancelled."""
        return self.record.cancelled.is_set

    def spool(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Drain `batches` into a joint and return the number of rows."""
        return spool(
            self.context,
            table,
            schema,
            batches,
            memory_bytes=self.memory_bytes,
            folder=self.folder,
            cancelled=self.cancelled,
        )

    def sql(self, text: str) -> Batches:
        """Run SQL over joints."""
        return self.loop.stream(self.context.sql(text), self.cancelled)


def run_operator(operator: Operator, rows: Iterable[pa.RecordBatch], runtime: Runtime) -> Batches:
    """Yield the operator's rows with its answers, as the answers come.

    Calls over the same arguments share a pass over the rows, sorted by these; each further pass reads the result of the
    one before. The last pass streams. Rows come in the order of the prompts, or in their own where the query needs it.
    """
    source = f"{operator.table}_rows"
    schema = operator.input.schema
    if operator.ordered:
        schema = schema.append(pa.field("position", pa.int64()))
        rows = numbered(rows, schema)
    runtime.spool(source, schema, rows)
    answered: list[int] = []
    passes = [list(g) for _, g in groupby(_by_arguments(operator.calls), key=lambda i: operator.calls[i].arguments)]
    for number, members in enumerate(passes):
        calls = [operator.calls[i] for i in members]
        schema = pa.schema([*schema, *(pa.field(f"a{i}", operator.calls[i].ai.type) for i in members)])
        batches = _run_pass(calls, source, schema, runtime)
        answered += members
        if number + 1 < len(passes):
            runtime.spool(f"{source}{number}", schema, batches)
            source = f"{source}{number}"
    width = operator.width
    first = len(schema) - len(answered)
    kept = [*range(width), *(first + answered.index(i) for i in range(len(operator.calls)))]
    if operator.ordered:
        runtime.spool(f"{source}_done", schema, batches)
        batches = runtime.sql(f"SELECT * FROM {source}_done ORDER BY position")
    with closing(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(i) for i in kept], schema=operator.schema)


def _by_arguments(calls: Sequence[BoundCall]) -> list[int]:
    return sorted(range(len(calls)), key=lambda i: calls[i].arguments)


def numbered(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """Append the number of each row, the last field of `schema`."""
    start = 0
    for batch in rows:
        position = pa.array(range(start, start + batch.num_rows), pa.int64())
        start += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns[: len(schema) - 1], position], schema=schema)


def _run_pass(calls: Sequence[BoundCall], table: str, schema: pa.Schema, runtime: Runtime) -> Batches:
    """Yield the rows of `table` with one column per call, `schema` naming all of them."""
    distinct = tuple(dict.fromkeys(calls[0].arguments))
    if any(not pa.types.is_string(schema.field(a).type) for a in distinct):
        raise InternalError(f"arguments of {calls[0].ai.text} are {[schema.field(a).type for a in distinct]}, not text")
    names = [schema.field(a).name for a in distinct]
    order = fixed_order(runtime.sql, table, names)
    rank = {distinct[column]: place for place, column in enumerate(order.columns)}
    sites = [_site(call, distinct, rank, runtime) for call in calls]
    for site in sites:
        site.counters.add(prompts_expected=order.distinct)
    asker = Asker(runtime.engine, runtime.cache, sites, runtime.window)
    text = f"SELECT * FROM {table} ORDER BY {', '.join(names[i] for i in order.columns)}"
    with closing(runtime.sql(text)) as rows, closing(asker.answer(units(rows, distinct), runtime.cancelled)) as done:
        for unit in done:
            yield unit.finish(schema)


def _site(call: BoundCall, distinct: Sequence[int], rank: dict[int, int], runtime: Runtime) -> Site:
    places = tuple(distinct.index(a) for a in call.arguments[: len(call.ai.fields)])
    order = tuple(sorted(range(len(call.ai.fields)), key=lambda f: rank[call.arguments[f]]))
    counters = runtime.record.call_site(call.ai.function, call.ai.text)
    return Site(call.ai, places, order, call.when, Keys(call.ai, runtime.engine.revision), counters)
