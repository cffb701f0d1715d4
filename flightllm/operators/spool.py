"""Keep the rows between two stages: in memory while they are few, in an Arrow file on disk beyond that."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

from flightllm.errors import CancelledError
from flightllm.plan.stages import register


@dataclass(frozen=True, slots=True)
class Spooled:
    """Rows kept: how many, and themselves where they are in memory."""

    rows: int
    batches: list[pa.RecordBatch] | None


def spool(
    context: SessionContext,
    table: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    memory_bytes: int,
    folder: Path,
    cancelled: Callable[[], bool],
) -> Spooled:
    """Drain `batches` into a table of `context` named `table`.

    Beyond `memory_bytes` the rows go to a file in `folder`, which the caller removes.

    Raises:
        CancelledError: `cancelled()` turned true.
    """
    kept: list[pa.RecordBatch] = []
    rows: int = 0
    held: int = 0
    source = _until(cancelled, batches)
    for batch in source:
        kept.append(batch)
        rows += batch.num_rows
        held += batch.nbytes
        if held > memory_bytes:
            break
    else:
        register(context, table, schema, kept)
        return Spooled(rows, kept)
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
    return Spooled(rows, None)


def _until(cancelled: Callable[[], bool], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if cancelled():
            raise CancelledError("the query was cancelled")
        yield batch
