"""Plans and runs a task with DataFusion, inside a sandbox process."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from datafusion import DataFrame, SessionContext, udf
from datafusion.catalog import Catalog, Schema

from flightllm.catalog.received import ReceivedTables
from flightllm.datafusion.contexts import QUERY_ONLY, encoded_frame, planned_text
from flightllm.datafusion.errors import mapped_error, panics_mapped
from flightllm.datafusion.run import spilled_bytes, with_plan
from flightllm.functions.internal import INTERNAL
from flightllm.sandbox.tasks import Setup, Task
from flightllm.storage.objects import ObjectStores

Call = Callable[[str, Sequence[pa.Array]], pa.Array]
"""Computes one of the server's functions by its name."""
_SETTINGS = "SELECT name, value FROM information_schema.df_settings WHERE value IS NOT NULL"


def settings_of(context: SessionContext) -> Mapping[str, str]:
    """Return a context's settings, in a form that another context can take."""
    return {
        name: value
        for batch in context.sql(_SETTINGS).collect()
        for name, value in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    }


def run(task: Task, setup: Setup, stores: ObjectStores, call: Call, send: Callable[[pa.RecordBatch], None]) -> int:
    """Run a task to its end and pass on its rows; return the bytes that it spilled to disk for lack of memory.

    Raises:
        FlightLLMError: the task fails.
    """
    with panics_mapped():
        try:
            context, made = _frame(task, setup, stores, call)
            frame, physical = with_plan(made, context, lambda planned: (planned, planned.execution_plan()))
            if task.wanted == "plan":
                send(pa.RecordBatch.from_pydict({"plan": [physical.display_indent()]}))
                return 0
            for batch in frame.execute_stream():
                send(batch.to_pyarrow())
            return spilled_bytes(frame.execution_plan())
        except Exception as error:  # the boundary to DataFusion, which raises builtin exceptions
            raise mapped_error(error) from error


def _frame(task: Task, setup: Setup, stores: ObjectStores, call: Call) -> tuple[SessionContext, DataFrame]:
    def register(context: SessionContext) -> None:
        for function in task.functions:

            def values(*arguments: pa.Array, name: str = function.name) -> pa.Array:
                return call(name, arguments)

            context.register_udf(udf(values, list(function.arguments), function.output, "immutable", function.name))
        for own in INTERNAL:
            context.register_udf(own.registered())

    context = ReceivedTables(task.tables, setup.limits, stores, register).context()
    for name, rows in task.own.items():
        _register(context, name, rows)
    own = settings_of(context)
    for name, value in task.settings.items():
        if own.get(name) != value:
            text = value.replace("'", "''")
            context.sql(f"SET {name} = '{text}'")
    if isinstance(task.source, bytes):
        return context, encoded_frame(context, task.source)
    return context, planned_text(context, task.source, QUERY_ONLY)


def _register(context: SessionContext, name: str, rows: object) -> None:
    catalog, schema, _ = name.split(".")
    if catalog not in context.catalog_names():
        context.register_catalog_provider(catalog, Catalog.memory_catalog())
    if schema not in context.catalog(catalog).schema_names():
        context.catalog(catalog).register_schema(schema, Schema.memory_schema())
    if not isinstance(rows, bytes):
        context.register_arrow(name, str(rows))
        return
    with pa.ipc.open_stream(rows) as reader:
        batches = list(_all(reader)) or [pa.RecordBatch.from_pylist([], schema=reader.schema)]
    context.register_record_batches(name, [batches])


def _all(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield from reader
