"""Rows that a change keeps on disk between its steps: written once, then read through a memory map."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from flightllm.catalog.memory import memory_table
from flightllm.common.names import quoted
from flightllm.common.row_groups import gathered
from flightllm.datafusion.contexts import with_types
from flightllm.datafusion.errors import mapped_error
from flightllm.errors import CancelledError
from flightllm.operators.runtime import SpoolLimits
from flightllm.storage.disk import disk_errors


class RowWriter:
    """Writes rows to files of one folder. One thread uses it."""

    def __init__(self, folder: Path, room: SpoolLimits, cancelled: Callable[[], bool]) -> None:
        self._folder = folder
        self._room = room
        self._cancelled = cancelled

    def keep(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return the rows as a table over the file that they were written to.

        Raises:
            CancelledError: the statement was cancelled.
            LimitExceededError: the rows do not fit into the spill limit or on the disk.
        """
        path = self._folder / f"{uuid4().hex}.arrow"
        with disk_errors(), pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                if self._cancelled():
                    raise CancelledError("the statement was cancelled")
                self._room.take(batch.nbytes)
                if batch.num_rows:
                    writer.write_batch(batch)
        if self._cancelled():
            raise CancelledError("the statement was cancelled")
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()


def cast_rows(
    context: Callable[[], SessionContext], schema: pa.Schema, types: Sequence[pa.DataType]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return a function that casts batches of one schema to other types, as INSERT does.

    Raises:
        SqlError: a type cannot be cast. A value that cannot be cast raises only when its batch is cast.
    """
    if list(schema.types) == list(types):
        return lambda batches: batches
    names = [f"c{index}" for index in range(len(schema))]
    plain = pa.schema([pa.field(name, kind) for name, kind in zip(names, schema.types, strict=True)])

    def frame(group: Sequence[pa.RecordBatch]) -> DataFrame:
        one = context()
        one.catalog().schema("public").register_table("rows", memory_table(group, plain))
        return with_types(one.sql(f"SELECT {', '.join(map(quoted, names))} FROM rows"), types)

    def cast(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=plain) for batch in batches)
        for group in gathered(renamed):
            try:
                done = frame(group).collect()
            except Exception as error:
                raise mapped_error(error) from error
            for batch in done:
                yield pa.RecordBatch.from_arrays(batch.columns, names=schema.names)

    try:
        # Over no rows, so that an impossible cast fails before the query runs.
        frame([]).optimized_logical_plan()
    except Exception as error:
        raise mapped_error(error) from error
    return cast
