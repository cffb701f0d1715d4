"""How large tables are, as far as their files say it without being read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.catalog.entries import Entry

_MOST_FILES = 64
"""Footers of more files are not read."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """Rows, and bytes in memory of the columns of which these are known."""

    rows: int
    columns: Mapping[str, int] = field(default_factory=dict)


def table_size(entry: Entry) -> TableSize | None:
    """Return how large a table is, None where its files do not say."""
    if entry.rows is not None:
        paths = [entry.rows.path(index) for index in range(len(entry.rows.files))]
        return _summed(paths) or TableSize(sum(file.rows for file in entry.rows.files))
    if entry.source is not None:
        return _summed([Path(entry.source.location)])
    if entry.path is None:
        return None
    paths = sorted(path for path in entry.path.rglob("*") if path.is_file()) if entry.path.is_dir() else [entry.path]
    return _summed(paths)


def _summed(paths: list[Path]) -> TableSize | None:
    if not paths or len(paths) > _MOST_FILES or any(path.suffix != ".parquet" for path in paths):
        return None
    rows, columns = 0, dict[str, int]()
    try:
        for path in paths:
            status = path.stat()
            size = _footer(path, status.st_mtime_ns, status.st_ino)
            rows += size.rows
            for name, count in size.columns.items():
                columns[name] = columns.get(name, 0) + count
    except (OSError, pa.ArrowException):
        return None
    return TableSize(rows, columns)


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
