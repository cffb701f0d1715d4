"""How the columns of a Parquet file are encoded, so that reading them takes little time."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_SAMPLE_ROWS = 16_384
_REPEATS = 4
"""A column of numbers whose values occur so many times on average in the sample gets a dictionary."""


def column_encodings(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> dict[str, Any]:
    """Return how a `ParquetWriter` compresses and encodes each column, judged by the first rows.

    Texts are compressed by LZ4, which is read twice as fast as Zstandard and takes half as much again on disk. Numbers
    are not compressed: few of them shrink much, and reading them is then a copy. Texts get a dictionary, which Parquet
    drops by itself where values differ; numbers get one where they repeat, as reading others through one costs time.
    """
    sample = pa.Table.from_batches(batches, schema).slice(0, _SAMPLE_ROWS)
    texts, repeated = list[str](), list[str]()
    for path, index in _leaves(schema):
        kind = schema.types[index]
        if not _is_number(kind):
            texts.append(path)
            repeated.append(path)
        elif pc.count_distinct(sample.column(index)).as_py() * _REPEATS <= sample.num_rows:
            repeated.append(path)
    return {"compression": dict.fromkeys(texts, "lz4"), "use_dictionary": repeated}


def _is_number(kind: pa.DataType) -> bool:
    """Tell whether the values are as wide as one another and short: numbers, dates, times and booleans."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _leaves(schema: pa.Schema) -> list[tuple[str, int]]:
    """Return the path of each Parquet column, with the index of the table's column that it belongs to.

    A column whose values have parts is several Parquet columns, whose paths Parquet alone can tell.
    """
    if not any(pa.types.is_nested(kind) for kind in schema.types):
        return [(name, index) for index, name in enumerate(schema.names)]
    found = list[tuple[str, int]]()
    for index, field in enumerate(schema):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.schema([field]).empty_table(), sink)
        parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
        found += [(parquet.column(leaf).path, index) for leaf in range(len(parquet))]
    return found
