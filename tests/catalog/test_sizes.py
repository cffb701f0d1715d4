"""How many different values a column has is told by a part of its largest file."""

from math import inf
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.catalog.sizes import table_size
from flightllm.common.names import TableName
from flightllm.config import Config, EngineConfig
from flightllm.datafusion.table_size import TableSize
from flightllm.session.database import Database

ROWS = 60_000


@pytest.fixture
def size(tmp_path: Path) -> TableSize:
    """Return the size of a table of two files, whose columns differ in what they repeat."""
    numbers = range(ROWS)
    half = pa.array([0 if n % 2 else n for n in numbers])
    columns = {
        "n": numbers,
        "few": [f"kind {n % 4}" for n in numbers],
        "half": half,
        "none": pa.nulls(ROWS, pa.int64()),
    }
    sparse = pa.array([n % 4 if n % 10 == 0 else None for n in numbers])
    table = pa.table({**columns, "sparse": sparse, "lists": [[n] for n in numbers]})
    (tmp_path / "files").mkdir()
    pq.write_table(table, tmp_path / "files" / "b.parquet", row_group_size=ROWS // 3)
    pq.write_table(table.slice(0, 1), tmp_path / "files" / "a.parquet")
    pq.write_table(table.slice(0, 1), tmp_path / "files" / "c.parquet")
    with_files = Config(engine=EngineConfig(kind="fake"), tables={"files": tmp_path / "files"}, data_folder=tmp_path)
    database = Database.open(with_files)
    try:
        found = table_size(database.catalog.entries[TableName("public", "files")])
    finally:
        database.close()
    assert found is not None
    return found


def test_rows(size: TableSize) -> None:
    """The rows of all files count."""
    assert size.rows == ROWS + 2


@pytest.mark.parametrize(
    ("column", "distinct"),
    [("n", inf), ("few", 4), ("half", 4), ("none", inf), ("sparse", 200), ("lists", inf), ("x", inf)],
)
def test_distinct(size: TableSize, column: str, distinct: float) -> None:
    """A value of every second row counts as one of four of the same share do; NULL counts as none."""
    assert size.distinct(column) == pytest.approx(distinct, rel=0.05)


def test_files_that_went(size: TableSize) -> None:
    """Nothing is known of a file that is there no more, and of no file."""
    assert size.largest is not None
    size.largest.unlink()
    assert size.distinct("few") == inf
    assert TableSize(10).distinct("few") == inf


@pytest.mark.parametrize(("groups", "days"), [(1, 100), (2, 100), (10, 100), (50, 100)])
def test_a_sorted_column(tmp_path: Path, groups: int, days: int) -> None:
    """A column sorted by day has as many values however few of them a row group has; one of two values has two."""
    day = pa.array([n * days // ROWS for n in range(ROWS)])
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"day": day, "two": [n % 2 for n in range(ROWS)]}), path, row_group_size=ROWS // groups)
    found = TableSize(ROWS, {}, path)
    assert found.distinct("day") == pytest.approx(days, rel=0.1)
    assert found.distinct("two") == pytest.approx(2, rel=0.1)
