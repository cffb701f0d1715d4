"""The contexts, models and limits of one running query, and the rows that it keeps between its stages."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from substrait.plan_pb2 import Plan

from flightllm.common.limits import over_limit
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches, Loop, until_cancelled
from flightllm.functions.call import AICall
from flightllm.observe.query_record import CallRecord, QueryRecord
from flightllm.operators.calibrator import Calibrator
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.encoded_rows import EncodedRows
from flightllm.operators.label_budget import LabelBudget
from flightllm.operators.rows import Response
from flightllm.operators.searches import Searcher
from flightllm.plan.stages import register, stage_frame

_MOST_FIRST_ROWS = 8_192
"""The assumed number of rows of a stage whose first rows are not known: the rows of one batch of DataFusion."""

Held = Mapping[str, tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]]
"""Rows of stage inputs by table: batches, or an Arrow file."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """The rows between two stages: their count, and the rows themselves where they are in memory."""

    rows: int
    batches: list[pa.RecordBatch] | None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class SpooledArguments:
    """The rows of an AI operator: their count, and the rows themselves where they are in memory."""

    rows: int
    encoded: EncodedRows | None


class SpoolLimits:
    """The space for rows between a query's stages: a limit for each spool in memory, and one for all on disk.

    One thread uses it.
    """

    def __init__(self, memory_bytes: int, disk_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._most = disk_bytes
        self._used = 0

    def take(self, size: int) -> None:
        """Count bytes before they are written.

        Raises:
            LimitExceededError: the query's bytes on disk exceed the limit.
        """
        self._used += size
        if self._used > self._most:
            found = f"the query keeps {self._used:,} bytes on disk between its steps"
            raise over_limit("spill_bytes", self._most, found, "ask for fewer rows or columns at once")


class Elsewhere(Protocol):
    """A runner for stages of one query outside of this process."""

    def bounded(self, context: SessionContext, frame: DataFrame) -> bool:
        """Return whether a stage can run in this process."""

    def stream(self, context: SessionContext, cancelled: Callable[[], bool], source: Plan, own: Held) -> Batches:
        """Yield the rows of a stage that runs under the settings of a context."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts that a query needs to run, besides its plan. Each query has its own `Runtime`."""

    context: SessionContext
    in_order: Callable[[], SessionContext]
    """Returns the same tables, in a context that keeps the order of rows even if the plan does not sort."""
    bindings: Mapping[str, ModelBinding]
    """The models that answer calls, by `AICall.binding`. `searcher` answers searches."""
    searcher: Callable[[], Searcher]
    settings: Settings
    loop: Loop
    record: QueryRecord
    calibrator: Callable[[], Calibrator]
    """Returns the calibrations of calls with examples; few queries need them."""
    folder: Path
    """The spill folder of this query, which is removed when the query ends."""
    room: SpoolLimits
    """Memory for rows between two stages."""
    elsewhere: Elsewhere | None = None
    """Runs the stages that can take more memory than their share."""
    counts_rows: bool = True
    """Whether the record has the rows of each part. A user must not see those that a policy with AI calls drops."""
    filled: set[str] = field(default_factory=set)
    """The stage inputs that already have their rows, by table."""
    held: dict[str, tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]] = field(default_factory=dict)
    """The rows of stage inputs, by table."""
    drained: dict[str, int] = field(default_factory=dict)
    """The number of rows of each stage input that was spooled, by table."""
    bounded: dict[int, bool] = field(default_factory=dict)
    """Whether a stage, by the identity of its plan, runs in this process."""
    counters: dict[str, list[CallRecord]] = field(default_factory=dict)
    """The call sites of operators that began, by name. Kept here, because an operator can run once per wave of rows."""
    errors: dict[bytes, Response] = field(default_factory=dict)
    """The errors of prompts, by key: a later step of the query does not send them again."""
    label_budgets: dict[tuple[str, int], LabelBudget] = field(default_factory=dict)
    """The label budgets of calls that ask their model about every row, by operator and place."""
    _proxies: dict[tuple[str, str, str], CallRecord] = field(default_factory=dict)
    """The call sites of proxies, by operator, call and binding."""
    _first: dict[int, int] = field(default_factory=dict)
    """The number of rows in the first batch of each begun stage, by the stage's identity."""
    _begun: dict[int, tuple[object, Batches]] = field(default_factory=dict)
    """The begun stages by identity, each with all of its rows, the first ones included."""

    @property
    def warn(self) -> Callable[[str], None]:
        """Return the function that gets what the query's result lacks."""
        return self.record.warn

    def proxy_counters(self, operator: str, call: AICall, binding: str) -> CallRecord:
        """Return the call site of a proxy, which is beside the call site of the call itself."""
        key = operator, call.stub, binding
        if key not in self._proxies:
            site = self.record.call_site(call.function, call.text, operator, call.backend, call.model)
            site.note(0, 0, role="proxy")
            self._proxies[key] = site
        return self._proxies[key]

    def count_rows(self, part: str, rows: int) -> None:
        """Count rows that a part of the plan returned."""
        if self.counts_rows:
            self.record.count_part(part, rows)

    def begin(self, stage: object, rows: Callable[[], Batches]) -> bool:
        """Run a stage up to its first row, and return whether it has no rows. `begun` returns all of its rows."""
        if id(stage) not in self._begun:
            batches = rows()
            first = next((batch for batch in batches if batch.num_rows), None)
            self._begun[id(stage)] = (stage, _from(first, batches))
            self._first[id(stage)] = 0 if first is None else first.num_rows
        return not self._first[id(stage)]

    def first_rows(self, stage: object) -> int:
        """Return the number of rows in the first batch of a stage; if it was not begun, the size of a full batch."""
        return self._first.get(id(stage), _MOST_FIRST_ROWS)

    def begun(self, stage: object) -> Batches | None:
        """Return the rows of a begun stage, which the caller then owns; None if the stage was not begun."""
        found = self._begun.pop(id(stage), None)
        return None if found is None else found[1]

    def close(self) -> None:
        """Stop the begun stages whose rows nobody took."""
        for _, batches in self._begun.values():
            batches.close()
        self._begun.clear()

    @property
    def ordered(self) -> SessionContext:
        """Return the context that keeps the order of rows."""
        return self.in_order()

    @property
    def cancelled(self) -> Callable[[], bool]:
        """Return whether the query was cancelled."""
        return self.record.cancelled.is_set

    def spool(
        self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, in_memory: bool = True
    ) -> Spooled:
        """Write all `batches` into a stage input; with `in_memory` false always on disk."""
        kept = spool(
            self.context,
            table,
            schema,
            batches,
            room=self.room,
            folder=self.folder,
            cancelled=self.cancelled,
            in_memory=in_memory,
        )
        self.held[table] = (schema, kept.batches or [] if kept.path is None else kept.path)
        self.drained[table] = kept.rows
        return kept

    def spool_arguments(
        self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], texts: Sequence[int]
    ) -> SpooledArguments:
        """Keep all `batches`, with each distinct text of the columns `texts` once; on disk they are a stage input."""
        encoded = EncodedRows(schema, texts, self.room.memory_bytes)
        source = until_cancelled(batches, self.cancelled)
        for batch in source:
            encoded.add(batch)
            if encoded.nbytes > self.room.memory_bytes:
                break
        else:
            encoded.seal()
            self.drained[table] = encoded.rows
            return SpooledArguments(encoded.rows, encoded)
        encoded.seal()
        kept = self.spool(table, schema, chain(encoded.batches(), source), in_memory=False)
        return SpooledArguments(kept.rows, None)

    def hold(
        self,
        table: str,
        schema: pa.Schema,
        batches: Sequence[pa.RecordBatch],
        context: SessionContext | None = None,
    ) -> None:
        """Put batches into a stage input; by default into the context that keeps the order of rows."""
        register(context or self.ordered, table, schema, batches)
        self.held[table] = (schema, batches)

    def stage(self, context: SessionContext, plan: Plan) -> Batches:
        """Run the plan of a stage in one of the query's contexts."""
        frame = stage_frame(context, plan)
        if self.elsewhere is None:
            return self.loop.stream(frame, self.cancelled, context=context)
        if id(plan) not in self.bounded:
            self.bounded[id(plan)] = self.elsewhere.bounded(context, frame)
        if self.bounded[id(plan)]:
            return self.loop.stream(frame, self.cancelled, context=context)
        return self.elsewhere.stream(context, self.cancelled, plan, self.held)

    def rows(self, spooled: Spooled, table: str) -> Iterable[pa.RecordBatch]:
        """Return the rows that were written into a stage input, in their order."""
        return self.sql(f"SELECT * FROM {table}") if spooled.batches is None else spooled.batches

    def sql(self, text: str) -> Batches:
        """Run SQL over stage inputs."""
        return self.loop.stream(self.context.sql(text), self.cancelled, context=self.context)


def spool(  # noqa: PLR0913 - six of them have names at the call
    context: SessionContext,
    table: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    room: SpoolLimits,
    folder: Path,
    cancelled: Callable[[], bool],
    in_memory: bool = True,
) -> Spooled:
    """Drain `batches` into a table of `context` named `table`.

    Rows beyond the `room` in memory go to a file in `folder`, which the caller removes; without `in_memory` all rows.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the `room` on disk is used up.
    """
    kept: list[pa.RecordBatch] = []
    rows: int = 0
    held: int = 0
    source = until_cancelled(batches, cancelled)
    for batch in source:
        kept.append(batch)
        rows += batch.num_rows
        held += batch.nbytes
        if held > room.memory_bytes or not in_memory:
            break
    else:
        register(context, table, schema, kept)
        return Spooled(rows, kept)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".arrow", delete=False) as file:
        with pa.ipc.new_file(file, schema) as writer:
            room.take(held)
            for batch in kept:
                writer.write_batch(batch)
            kept.clear()
            for batch in source:
                room.take(batch.nbytes)
                writer.write_batch(batch)
                rows += batch.num_rows
        path = Path(file.name)
    context.deregister_table(table)
    context.register_arrow(table, path)
    return Spooled(rows, None, path)


def with_row_ids(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """Append the number of each row, counted from 0, as the last column of `schema`."""
    start = 0
    for batch in rows:
        position = pa.array(range(start, start + batch.num_rows), pa.int64())
        start += batch.num_rows
        yield pa.RecordBatch.from_arrays([*batch.columns[: len(schema) - 1], position], schema=schema)


def _from(first: pa.RecordBatch | None, rest: Batches) -> Batches:
    with closing(rest):
        if first is not None:
            yield first
            yield from rest
