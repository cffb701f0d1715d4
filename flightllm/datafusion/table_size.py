"""How large tables are, as far as the footers of their Parquet files say it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_MOST_FILES = 64
"""Footers of more files are not read."""
_SAMPLE_BYTES = 32 << 20
"""A column is looked at where a part of it has at most so many bytes in memory: one of few values has fewer."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows, and bytes in memory of the columns of which these are known."""

    rows: int
    columns: Mapping[str, int] = field(default_factory=dict)
    largest: Path | None = None
    """The file with most rows."""

    def distinct(self, column: str) -> float:
        """Guess how many different values a column would have, were each as frequent, by parts of its largest file.

        Infinite where no value is there twice, or nothing is known. NULL is no value, as no join finds it.
        """
        if self.largest is None:
            return inf
        try:
            status = self.largest.stat()
            return _distinct(self.largest, status.st_mtime_ns, status.st_ino, column)
        except (OSError, pa.ArrowException, KeyError):
            return inf


def size_of_files(paths: list[Path]) -> TableSize | None:
    """Return how large a table of these Parquet files is, None where their footers do not say."""
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
    """Return what the footer of a Parquet file says; the file is the same while its change and inode are."""
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
    """Return the inverse of how likely two rows of a Parquet file have the same value; see `_footer`.

    It is told by the first, the middle and the last row group. Two rows are of one group as often as there are groups,
    and of two otherwise: a value of a sorted column is in one group alone.
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
    """Return how many pairs of different rows have the same value."""
    counts = pc.cast(values.drop_null().value_counts().field("counts"), pa.float64())
    return float(pc.sum(pc.multiply(counts, pc.subtract(counts, 1.0))).as_py() or 0.0)


def _pairs(values: pa.ChunkedArray) -> float:
    return len(values) * (len(values) - 1.0)
