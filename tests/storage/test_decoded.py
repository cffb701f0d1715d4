"""Decoded tables: bounded, dropped when told, and the same rows as were put in."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.storage.decoded import DecodedTables, Filling

A, B = Path("a"), Path("b")
ROWS = 1_000
BYTES = 8 * ROWS


def _numbers(start: int = 0) -> pa.Array:
    return pa.array(range(start, start + ROWS), pa.int64())


def _again(tables: DecodedTables, folder: Path, columns: tuple[str, ...] = ("x",)) -> Filling:
    """Read a folder again."""
    filling = tables.fill(folder, columns, BYTES) or tables.fill(folder, columns, BYTES)
    assert filling is not None
    return filling


def _kept(tables: DecodedTables, folder: Path, start: int = 0) -> None:
    filling = _again(tables, folder)
    filling.add([_numbers(start)])
    filling.keep()
    filling.close()


def test_second_read() -> None:
    """The second read of a table puts it into the cache, and the third finds it."""
    tables = DecodedTables(10 * BYTES)
    assert tables.fill(A, ("x",), BYTES) is None
    _kept(tables, A)
    assert tables.counts().bytes == BYTES
    found = tables.find(A, ("x",))
    assert found is not None
    assert pa.Table.from_batches(found)["x"].to_pylist() == list(range(ROWS))
    assert (tables.counts().hits, tables.counts().misses) == (1, 0)
    assert tables.find(B, ("x",)) is None
    assert tables.counts().misses == 1


def test_columns() -> None:
    """A cached table answers for any of its columns in any order, and for no other column."""
    tables = DecodedTables(10 * BYTES)
    filling = _again(tables, A, ("x", "y"))
    for start in (0, ROWS):
        filling.add([_numbers(start), pa.array([f"text {start}"] * ROWS)])
    filling.keep()
    found = tables.find(A, ("y", "x", "y"))
    assert found is not None
    table = pa.Table.from_batches(found)
    assert table.column_names == ["y", "x", "y"]
    assert table.column(1).to_pylist() == list(range(2 * ROWS))
    assert set(table.column(2).to_pylist()) == {"text 0", f"text {ROWS}"}
    assert tables.find(A, ("z",)) is None


def test_bound() -> None:
    """The table that was used least recently makes room; a table that cannot fit leaves nothing behind."""
    tables = DecodedTables(2 * BYTES)
    _kept(tables, A)
    _kept(tables, B)
    assert tables.find(A, ("x",)) is not None
    _kept(tables, Path("c"))
    assert tables.find(B, ("x",)) is None
    assert tables.find(A, ("x",)) is not None
    filling = _again(tables, B)
    for start in range(3):
        filling.add([_numbers(start)])
    filling.keep()
    assert not filling.wanted
    assert tables.find(B, ("x",)) is None
    assert tables.counts().bytes <= 2 * BYTES
    assert tables.fill(B, ("x",), 3 * BYTES) is None


def test_nothing_kept() -> None:
    """Without room the cache takes no table."""
    tables = DecodedTables(0)
    assert [tables.fill(A, ("x",), BYTES) for _ in range(3)] == [None] * 3


def test_half_read() -> None:
    """A read that does not reach the end keeps nothing, and the next read can."""
    tables = DecodedTables(10 * BYTES)
    filling = _again(tables, A)
    filling.add([_numbers()])
    assert tables.fill(A, ("x",), BYTES) is None
    filling.close()
    filling.keep()
    assert (tables.find(A, ("x",)), tables.counts().bytes) == (None, 0)
    _kept(tables, A)
    assert tables.counts().tables == 1


@pytest.mark.parametrize("finished", [True, False])
def test_forget(finished: bool) -> None:
    """A changed table is dropped, also one that is being read in; readers keep what they have."""
    tables = DecodedTables(10 * BYTES)
    filling = _again(tables, A)
    filling.add([_numbers()])
    if finished:
        filling.keep()
    found = tables.find(A, ("x",))
    tables.forget(A)
    filling.add([_numbers()])
    filling.keep()
    assert (tables.find(A, ("x",)), tables.counts().bytes) == (None, 0)
    assert (found is not None) is finished
    assert found is None or pa.Table.from_batches(found).num_rows == ROWS


def test_shrink() -> None:
    """Under memory pressure the oldest tables go, and only as many as are asked for."""
    tables = DecodedTables(10 * BYTES)
    for folder in (A, B):
        _kept(tables, folder)
    filling = _again(tables, Path("c"))
    filling.add([_numbers()])
    assert tables.shrink(BYTES) == BYTES
    assert not filling.wanted
    assert tables.shrink(1) == BYTES
    assert tables.find(A, ("x",)) is None
    assert tables.find(B, ("x",)) is not None
    assert tables.shrink(10 * BYTES) == BYTES
    assert tables.counts().bytes == 0
