"""Row groups of Parquet files: their batches, and their statistics."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

_GROUP_ROWS, _GROUP_BYTES = 131_072, 64 << 20
"""A row group is written at this many rows, or at this many bytes in memory."""


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield groups of non-empty batches; each group makes a good row group and fits in memory."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def columns_with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns whose least and greatest values a file tells, by which readers skip rows.

    Statistics of floats ignore NaN, which is greater than any number in SQL. Readers would then skip matching rows, and
    DataFusion takes a column whose least value is its greatest one for a constant.
    """
    return [field.name for field in schema if not (pa.types.is_floating(field.type) or pa.types.is_nested(field.type))]
