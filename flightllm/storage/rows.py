"""Rows in one data file: Parquet, or Arrow's own format for the few types that Parquet cannot store."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from flightllm.common.arrow_types import is_list
from flightllm.common.row_groups import columns_with_statistics, gathered
from flightllm.errors import InternalError, InvalidInputError
from flightllm.storage.digest import DigestFile
from flightllm.storage.disk import disk_errors
from flightllm.storage.encoding import column_encodings
from flightllm.storage.folder import TablesFolder, name_of

_log = structlog.get_logger(__name__)
_BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file: its name, its size on disk, and its number of rows."""

    name: str
    bytes: int
    rows: int
    sha256: str = ""
    """The digest of the bytes that were written; empty if an earlier version wrote the file."""


def suffix_for(schema: pa.Schema) -> str:
    """Return the file name suffix for rows of a schema, which also selects the format."""
    return ".parquet" if all(_parquet_holds(kind) for kind in schema.types) else ".arrow"


def _parquet_holds(kind: pa.DataType) -> bool:
    """Return whether a type is the same after a round trip through Parquet.

    Types with parts that must not be NULL are excluded: Arrow's writer reports NULLs in the parts of a NULL value.
    """
    types = pa.types
    if types.is_interval(kind) or (types.is_decimal(kind) and kind.scale < 0):
        return False
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(map(_field_held, kind.fields))
    if types.is_map(kind):
        return _parquet_holds(kind.key_type) and _field_held(kind.item_field)
    if types.is_fixed_size_list(kind) and not kind.list_size:
        return False
    return _field_held(kind.value_field) if is_list(kind) else True


def _field_held(field: pa.Field) -> bool:
    return bool(field.nullable) and _parquet_holds(field.type)


def write_rows(folder: TablesFolder, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StoredFile | None:
    """Write batches of this schema to a new data file as they arrive; without rows, return None and make no file.

    The file is not yet safe on disk: see `TablesFolder.sync`. If `batches` raises, the file is removed.

    Raises:
        InvalidInputError: Arrow cannot write these rows.
        LimitExceededError: the disk is full.
        InternalError: the file cannot be written for another reason.
    """
    with _File(folder.new_file(suffix_for(schema)), schema) as file:
        for group in gathered(batches):
            try:
                with disk_errors():
                    file.write(group)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(f"the rows cannot be stored: {error}") from error
    return file.stored


def read_rows(paths: Iterable[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of data files in order; `schema` must be the schema with which they were written.

    Raises:
        InternalError: a file is damaged.
    """
    for path in paths:
        try:
            for batch in _batches(path):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        except (OSError, pa.ArrowException) as error:
            _log.exception("a table's file cannot be read", path=str(path))
            raise InternalError("a file of a table is missing or damaged; see the server's log for its name") from error


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(_BATCH_ROWS, use_threads=False)
    else:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            yield from (file.get_batch(index) for index in range(file.num_record_batches))


class _File:
    """A data file that is being written; a failure removes it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.stored: StoredFile | None = None
        self._path = path
        self._schema = schema
        self._rows = 0
        self._file: DigestFile | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | pa.RecordBatchFileWriter | None = None

    def write(self, batches: list[pa.RecordBatch]) -> None:
        if self._writer is None:
            self._file = DigestFile(self._path)
            self._sink = self._file.sink()
            if self._path.suffix == ".parquet":
                self._writer = pq.ParquetWriter(
                    self._sink,
                    self._schema,
                    write_statistics=columns_with_statistics(self._schema),
                    **column_encodings(self._schema, batches),
                )
            else:
                self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._writer.write_table(pa.Table.from_batches(batches, self._schema))
        self._rows += sum(batch.num_rows for batch in batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._writer is not None and self._sink is not None and self._file is not None and value is None:
                with disk_errors():
                    self._writer.close()
                    self._sink.close()
                    size = self._path.stat().st_size
                    self.stored = StoredFile(name_of(self._path), size, self._rows, self._file.digest)
        finally:
            if self.stored is None:
                self._close_quietly()
                with suppress(OSError):  # the next start removes what is left
                    self._path.unlink(missing_ok=True)

    def _close_quietly(self) -> None:
        """Close the writer and the sink of a file to remove; on a full disk, closing can fail, too."""
        for one in (self._writer, self._sink, self._file):
            try:
                if one is not None:
                    one.close()
            except (OSError, pa.ArrowException):
                continue
