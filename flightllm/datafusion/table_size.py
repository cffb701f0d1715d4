"""Table sizes from the footers of Parquet files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_MOST_FILES = 64
"""Footers are not read for tables with more files."""
_SAMPLE_BYTES = 32 << 20
"""A column is sampled if it takes at most this many bytes of memory in a row group. Few distinct values take fewer."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """The number of rows, and the bytes in memory of the columns with known sizes."""

    rows: int
    columns: Mapping[str, int] = field(default_factory=dict)
    largest: Path | None = None
    """The file with the most rows."""

    def distinct(self, column: str) -> float:
        """Estimate the number of distinct values of a column from the table's largest file.

        The estimate assumes that all values are equally frequent. It is infinite if no value repeats, or nothing is
        known. NULL does not count, because a join never matches NULL.
        """
        if self.largest is None:
            return inf
        try:
            status = self.largest.stat()
            return _distinct(self.largest, status.st_mtime_ns, status.st_ino, column)
        except (OSError, pa.ArrowException, KeyError):
            return inf


def size_of_files(paths: list[Path]) -> TableSize | None:
    """Return the size of a table of these Parquet files; None if their footers do not have the size."""
    if not paths or len(paths) > _MOST_FILES or any(path.suffix != ".parquet" for path in paths):
        return None
    rows, columns, largest, most = 0, dict[str, int](), paths[0], -1
    try:
        for path in paths:
            status = path.stat()
            size = _footer(path, status.st_mtime_ns, status.st_ino)
            rows += size.rows
            if size.rows > most:
                largest, most = path, size.rows
            for name, count in size.columns.items():
                columns[name] = columns.get(name, 0) + count
    except (OSError, pa.ArrowException):
        return None
    return TableSize(rows, columns, largest)


@lru_cache(4_096)
def _footer(path: Path, changed: int, inode: int) -> TableSize:
    """Return the size in a Parquet file's footer. The other arguments are the cache key: they change with the file."""
    del changed, inode
    metadata = pq.read_metadata(path)
    columns: dict[str, int] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            columns[name] = columns.get(name, 0) + max(column.total_uncompressed_size, 8 * column.num_values)
    return TableSize(metadata.num_rows, columns)


@lru_cache(4_096)
def _distinct(path: Path, changed: int, inode: int, column: str) -> float:
    """Return 1 / (the probability that two random rows of a Parquet file have the same value).

    `_footer` explains `changed` and `inode`.

    The first, middle and last row groups are the sample. Of G row groups, two random rows share a group with
    probability 1/G. So equal pairs within groups get the weight 1/G, and pairs across groups get 1 - 1/G.

    | row group | values | equal / all pairs within | equal / all pairs across |
    |---|---|---|---|
    | 0 | a, a | 2 / 2 | |
    | 1 | b, b | 2 / 2 | 0 / 8 |

    A sorted column, as above, has each value in one group: 4/4 · 1/2 + 0/8 · 1/2 = 1/2, so 2 distinct values.
    """
    del changed, inode
    with pq.ParquetFile(path) as file:
        metadata, parts = file.metadata, list[pa.ChunkedArray]()
        groups = metadata.num_row_groups
        if not groups:
            return inf
        for number in sorted({0, groups // 2, groups - 1}):
            group = metadata.row_group(number)
            chunks = (group.column(index) for index in range(group.num_columns))
            if sum(c.total_uncompressed_size for c in chunks if c.path_in_schema == column) > _SAMPLE_BYTES:
                return inf
            parts.append(file.read_row_group(number, columns=[column]).column(column))
    whole = pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
    within, pairs_within = sum(map(_same, parts)), sum(map(_pairs, parts))
    across, pairs_across = _same(whole) - within, _pairs(whole) - pairs_within
    same = within / pairs_within / groups if pairs_within else 0.0
    same += across / pairs_across * (1 - 1 / groups) if pairs_across else 0.0
    return max(1.0, 1 / same) if same else inf


def _same(values: pa.ChunkedArray) -> float:
    """Return the number of ordered pairs of rows with the same value, without NULLs."""
    counts = pc.cast(values.drop_null().value_counts().field("counts"), pa.float64())
    return float(pc.sum(pc.multiply(counts, pc.subtract(counts, 1.0))).as_py() or 0.0)


def _pairs(values: pa.ChunkedArray) -> float:
    return len(values) * (len(values) - 1.0)
