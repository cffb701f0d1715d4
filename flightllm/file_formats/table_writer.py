"""The writer of the Parquet files that conversions make."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.common.row_groups import columns_with_statistics


def table_writer(target: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a new Parquet file; see `columns_with_statistics`."""
    told = columns_with_statistics(schema)
    return pq.ParquetWriter(target, schema, compression="zstd", compression_level=1, write_statistics=told)
