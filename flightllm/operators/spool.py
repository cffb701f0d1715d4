"""Keep the rows between two stages: few rows in memory, more rows in an Arrow file on disk."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext

from flightllm.common.limits import over_limit
from flightllm.errors import CancelledError
from flightllm.plan.stages import register


@dataclass(frozen=True, slots=True)
class Spooled:
    """The rows between two stages: their count, and the rows themselves where they are in memory."""

    rows: int
    batches: list[pa.RecordBatch] | None
    path: Path | None = None


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


def spool(
    context: SessionContext,
    table: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    room: SpoolLimits,
    folder: Path,
    cancelled: Callable[[], bool],
) -> Spooled:
    """Drain `batches` into a table of `context` named `table`.

    Rows beyond the `room` in memory go to a file in `folder`, which the caller removes.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the `room` on disk is used up.
    """
    kept: list[pa.RecordBatch] = []
    rows: int = 0
    held: int = 0
    source = _until(cancelled, batches)
    for batch in source:
        kept.append(batch)
        rows += batch.num_rows
        held += batch.nbytes
        if held > room.memory_bytes:
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


def _until(cancelled: Callable[[], bool], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if cancelled():
            raise CancelledError("the query was cancelled")
        yield batch
