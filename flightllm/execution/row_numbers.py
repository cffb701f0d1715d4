"""Row numbers of a query's tables: count them in a context that is not parallel, and store them for others."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, TypeVar

import pyarrow as pa
from datafusion import DataFrame

from flightllm.catalog.memory import memory_table
from flightllm.catalog.numbered import NumberedTable
from flightllm.datafusion.errors import full_disk_mapped
from flightllm.execution.bind import frame_of, scalar_context
from flightllm.execution.context import Services
from flightllm.sql.calls import Extracted

_Q = TypeVar("_Q")


def _numbering(services: Services, name: str, table: NumberedTable) -> DataFrame:
    numbering = Extracted(f"SELECT * FROM {name}", {}, {name: replace(table, due=False)})
    return frame_of(scalar_context(services, numbering, parallel=False), numbering)


def numbered_schema(services: Services, name: str, table: NumberedTable) -> pa.Schema:
    """Return the columns of a table with its row numbers; no row is read."""
    schema: pa.Schema = _numbering(services, name, table).schema()
    return schema


@contextmanager
def numbered_file(
    services: Services, name: str, table: NumberedTable, cancelled: Callable[[], bool]
) -> Iterator[tuple[pa.Schema, Path]]:
    """Write the rows of a table, with their numbers, to an Arrow file; yield the schema and the path.

    The file is removed at the end of the block.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the disk is full.
    """
    with rows_file(services, _numbering(services, name, table), cancelled) as found:
        yield found


@contextmanager
def rows_file(services: Services, frame: DataFrame, cancelled: Callable[[], bool]) -> Iterator[tuple[pa.Schema, Path]]:
    """Write the rows of a frame to an Arrow file; yield the schema and the path. See `numbered_file`."""
    schema: pa.Schema = frame.schema()
    where = services.config.limits.spill_folder
    with full_disk_mapped(), TemporaryDirectory(prefix="flightllm-", dir=where) as folder:
        path = Path(folder) / "rows.arrow"
        with (
            closing(services.loop.stream(frame, cancelled)) as rows,
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            for batch in rows:
                writer.write_batch(batch)
        yield schema, path


def with_numbers_due(extracted: Extracted) -> Extracted | None:
    """Return a query that stores its numbered tables when it runs, or None if all of them are already stored."""
    numbered = {
        name: replace(table, due=True)
        for name, table in extracted.tables.items()
        if isinstance(table, NumberedTable) and not table.stored
    }
    return replace(extracted, tables={**extracted.tables, **numbered}) if numbered else None


def _with_stored_numbers(services: Services, extracted: Extracted, cancelled: Callable[[], bool]) -> Extracted | None:
    """Return a query that reads numbered tables from files; None if no numbered table is due to be stored.

    A parallel context can run the query. The files are unlinked; their disk space is free once the query is closed.

    Raises:
        CancelledError: `cancelled()` turned true.
        LimitExceededError: the disk is full.
    """

    def stored(name: str, table: NumberedTable) -> NumberedTable:
        with numbered_file(services, name, table, cancelled) as (schema, path):
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        return NumberedTable(table.schema, memory_table(batches, schema))

    due = {
        name: stored(name, table)
        for name, table in extracted.tables.items()
        if isinstance(table, NumberedTable) and table.due
    }
    return replace(extracted, tables={**extracted.tables, **due}) if due else None


class OverStoredNumbers(Generic[_Q]):
    """Plans a query again over stored row numbers, once, when the query first runs."""

    def __init__(self, services: Services, extracted: Extracted, planned: Callable[[Extracted], _Q]) -> None:
        self._services = services
        self._extracted = extracted
        self._planned = planned
        self.query: _Q | None = None
        """None before the first run, and for a query without due tables."""

    def get(self, cancelled: Callable[[], bool]) -> _Q | None:
        """Return the query to run instead; None for a query without due tables.

        Raises:
            CancelledError: `cancelled()` turned true.
            LimitExceededError: the disk is full.
        """
        if self.query is None:
            found = _with_stored_numbers(self._services, self._extracted, cancelled)
            self.query = None if found is None else self._planned(found)
        return self.query
