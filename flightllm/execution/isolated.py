"""Run a query's relational work in separate processes if its values have no bound. The processes see its tables."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Literal

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from substrait.algebra_pb2 import ReadRel
from substrait.plan_pb2 import Plan

from flightllm.catalog.entries import Entry
from flightllm.catalog.numbered import NumberedTable
from flightllm.catalog.sent_parts import SENT_CATALOG
from flightllm.catalog.shipping import shipped
from flightllm.common.admission import AdmissionSlot
from flightllm.datafusion.contexts import scratch_context
from flightllm.datafusion.run import Batches
from flightllm.execution.context import Services
from flightllm.execution.row_numbers import numbered_file, numbered_schema, rows_file
from flightllm.operators.runtime import Held
from flightllm.plan.bounds import unbounded
from flightllm.plan.stages import STAGE_CATALOG
from flightllm.plan.substrait import messages
from flightllm.sandbox.running import settings_of
from flightllm.sandbox.tasks import Function, Task
from flightllm.sql.calls import Extracted


class Isolated:
    """The runner of a query's parts in separate processes. Thread-safe."""

    def __init__(self, services: Services, extracted: Extracted) -> None:
        self._services = services
        self._extracted = extracted
        self._functions = {scalar.name: scalar for scalar in services.functions.scalars()}
        self._lock = Lock()
        self._open = 0
        self._place: AdmissionSlot | None = None

    def bounded(self, context: SessionContext, frame: DataFrame) -> bool:
        """Return whether a part of the query can run in this process."""
        return unbounded(context, frame, self._services.config.limits) is None

    def stream(
        self,
        context: SessionContext,
        cancelled: Callable[[], bool],
        source: Plan | None = None,
        own: Held | None = None,
        wanted: Literal["rows", "plan"] = "rows",
    ) -> Batches:
        """Yield the rows of the query, or of a part of it by its Substrait plan, under the settings of a context.

        `own` are tables that only the query has, besides the tables that it was planned with.

        Raises:
            CancelledError: `cancelled()` turned true.
            LimitExceededError: the part took too much memory.
            FlightLLMError: the part fails as it would in this process.
        """
        functions = {name: function.bind(self._services.engine) for name, function in self._functions.items()}
        with ExitStack() as open_things:
            task = self._task(context, source, own or {}, wanted, open_things, cancelled)
            open_things.enter_context(self._placed(cancelled))
            rows = self._services.isolation.stream(task, functions, cancelled)
            yield from open_things.enter_context(closing(rows))

    def physical_plan(self, context: SessionContext, cancelled: Callable[[], bool]) -> str:
        """Return DataFusion's physical plan of the query."""
        with closing(self.stream(context, cancelled, wanted="plan")) as rows:
            return "".join(str(value) for batch in rows for value in batch.column(0).to_pylist())

    def _task(
        self,
        context: SessionContext,
        source: Plan | None,
        own: Held,
        wanted: Literal["rows", "plan"],
        open_things: ExitStack,
        cancelled: Callable[[], bool],
    ) -> Task:
        extracted = self._extracted
        given = extracted.plan if source is None else source
        text, sent = extracted.sql, None
        if given is not None:
            plan = given if isinstance(given, Plan) else Plan.FromString(given)
            read = [list(table.names) for table in messages(plan, ReadRel.NamedTable)]
            text, sent = " ".join(name for names in read for name in names), plan.SerializeToString()
            names = list(map(".".join, read))
            parts = {
                name: self._part(context, name, wanted, open_things, cancelled)
                for name in names
                if name.startswith(f"{SENT_CATALOG}.")
            }
            own = parts | {
                name: own[name] if name in own else _joint(context, name)
                for name in names
                if name in own or name.startswith(f"{STAGE_CATALOG}.")
            }
        tables = {
            name: self._numbered(name, table, wanted, open_things, cancelled)
            if isinstance(table, NumberedTable)
            else (table.schema, table.to_batches())
            for name, table in extracted.tables.items()
        }
        return Task(
            extracted.sql if sent is None else sent,
            shipped(self._services.catalog, text, lambda entry: self._copied(entry, wanted, open_things, cancelled)),
            {name: _sent(*rows) for name, rows in {**tables, **own}.items()},
            settings_of(context),
            tuple(Function(f.name, tuple(f.arguments), f.output) for f in self._functions.values()),
            wanted,
        )

    def _numbered(
        self,
        name: str,
        table: NumberedTable,
        wanted: Literal["rows", "plan"],
        open_things: ExitStack,
        cancelled: Callable[[], bool],
    ) -> tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]:
        """Return the columns of a table to change, and a file with its rows; a plan needs no rows."""
        if wanted == "plan":
            return numbered_schema(self._services, name, table), []
        return open_things.enter_context(numbered_file(self._services, name, table, cancelled))

    def _copied(
        self, entry: Entry, wanted: Literal["rows", "plan"], open_things: ExitStack, cancelled: Callable[[], bool]
    ) -> str:
        """Return the path of a file with the rows of an attached table, because the process reaches no source."""
        if wanted == "plan" or entry.provider is None:
            return ""
        context = scratch_context()
        context.register_table("t", entry.provider)
        return str(open_things.enter_context(rows_file(self._services, context.table("t"), cancelled))[1])

    def _part(
        self,
        context: SessionContext,
        name: str,
        wanted: Literal["rows", "plan"],
        open_things: ExitStack,
        cancelled: Callable[[], bool],
    ) -> tuple[pa.Schema, Sequence[pa.RecordBatch] | Path]:
        """Return the columns of a part that an attached database runs, and a file with its rows."""
        frame = context.table(name)
        if wanted == "plan":
            return frame.schema(), ()
        return open_things.enter_context(rows_file(self._services, frame, cancelled))

    @contextmanager
    def _placed(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Hold an admission slot for the query while any part of it runs."""
        with self._lock:
            self._open += 1
            first = self._open == 1
        try:
            if first:
                self._place = self._services.isolation.admit(self._services.rights.principal.name, cancelled)
            yield
        finally:
            with self._lock:
                self._open -= 1
                place = None
                if not self._open:
                    place, self._place = self._place, None
            if place is not None:
                place.release()


def _joint(context: SessionContext, name: str) -> tuple[pa.Schema, Sequence[pa.RecordBatch]]:
    """Return the rows of a stage input that is in memory: it was not filled, or it has only a few rows."""
    frame = context.table(name)
    return frame.schema(), frame.collect()


def _sent(schema: pa.Schema, rows: Sequence[pa.RecordBatch] | Path) -> bytes | Path:
    if isinstance(rows, Path):
        return rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
