"""Copies Parquet files with the same columns to one Parquet file, and says which files need that."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError
from flightllm.file_formats.table_writer import table_writer


def convert_parquet(paths: Sequence[Path], schema: pa.Schema, target: Path, counts: list[int]) -> list[str]:
    """Write the rows of Parquet files in order, with the types of a schema; `counts` gets each file's number of rows.

    Raises:
        InvalidInputError: a file cannot be read, or has other columns.
    """
    with table_writer(target, schema) as writer:
        for path in paths:
            try:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches():
                        writer.write_batch(batch.select(schema.names).cast(schema))
                    counts.append(file.metadata.num_rows)
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                raise InvalidInputError(f"{path.name}: it cannot be read as a Parquet file: {error}") from error
    return []


def hides_nan(path: Path) -> bool:
    """Return whether the statistics of a Parquet file say that a column is constant, and the column has NaN.

    DataFusion believes them, and would put the constant in place of NaN. False for a file that cannot be read.
    """
    try:
        with pq.ParquetFile(path) as file:
            return any(_has_nan(file, name) for name in _constants(file.metadata))
    except (OSError, ValueError, pa.ArrowException):  # opening the table raises the error
        return False


def _constants(metadata: pq.FileMetaData) -> Iterator[str]:
    """Yield the columns of floats without NULLs whose least value is their greatest one."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        if column.physical_type not in {"FLOAT", "DOUBLE"} or "." in column.path:
            continue
        told = [group.column(place).statistics for group in groups]
        known = told and all(one is not None and one.has_min_max and not one.null_count for one in told)
        if known and min(one.min for one in told) == max(one.max for one in told):
            yield column.path


def _has_nan(file: pq.ParquetFile, name: str) -> bool:
    batches = file.iter_batches(columns=[name])
    return any(pc.any(pc.is_nan(batch.column(0))).as_py() for batch in batches)
