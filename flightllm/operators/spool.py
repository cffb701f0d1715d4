"""Keep the rows between two stages: in memory while they are few, in an Arrow file on disk beyond that."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

from flightllm.plan.stages import register


def spool(
    context: SessionContext,
    table: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    memory_bytes: int,
    folder: Path,
) -> int:
    """Drain `batches` into a table of `context` named `table`; return its number of rows.

    Beyond `memory_bytes` the rows go to a file in `folder`, which the caller removes.
    """
    kept: list[pa.RecordBatch] = []
    rows: int = 0
    held: int = 0
    source = iter(batches)
    for batch in source:
        kept.append(batch)
        rows += batch.num_rows
        held += batch.nbytes
        if held > memory_bytes:
            break
    else:
        register(context, table, schema, kept)
        return rows
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".arrow", delete=False) as file:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in kept:
                writer.write_batch(batch)
            kept.clear()
            for batch in source:
                writer.write_batch(batch)
                rows += batch.num_rows
        path = file.name
    context.deregister_table(table)
    context.register_arrow(table, path)
    return rows
