"""Copies Parquet files with the same columns to one Parquet file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.errors import InvalidInputError


def convert_parquet(paths: Sequence[Path], schema: pa.Schema, target: Path, counts: list[int]) -> list[str]:
    """Write the rows of Parquet files in order, with the types of a schema; `counts` gets each file's number of rows.

    Raises:
        InvalidInputError: a file cannot be read, or has other columns.
    """
    with pq.ParquetWriter(target, schema, compression="zstd", compression_level=1) as writer:
        for path in paths:
            try:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches():
                        writer.write_batch(batch.select(schema.names).cast(schema))
                    counts.append(file.metadata.num_rows)
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                raise InvalidInputError(f"{path.name}: it cannot be read as a Parquet file: {error}") from error
    return []
