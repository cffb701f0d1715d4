"""Decoded tables: bounded, dropped when told, and the same rows as were put in."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.storage import decoded
from flightllm.storage.decoded import DecodedTables, TableCopy
from flightllm.storage.rows_in_memory import Room

A, B = Path("a"), Path("b")
ROWS = 100_000
BYTES = 8 * ROWS
KEPT = BYTES + (128 << 10)
"""More than the memory of one kept column, and less than that of one column and a half."""


def _numbers(start: int = 0) -> pa.Array:
    return pa.array(range(start, start + ROWS), pa.int64())


def _again(tables: DecodedTables, folder: Path, columns: tuple[str, ...] = ("x",)) -> TableCopy:
    """Read a folder again."""
    copy = tables.start_copy(folder, columns, BYTES) or tables.start_copy(folder, columns, BYTES)
    assert copy is not None
    return copy


def _kept(tables: DecodedTables, folder: Path, start: int = 0) -> None:
    copy = _again(tables, folder)
    copy.add([_numbers(start)])
    copy.keep()
    copy.close()


def test_second_read() -> None:
    """The second read of a table puts it into the cache, and the third finds it."""
    tables = DecodedTables(10 * KEPT)
    assert tables.start_copy(A, ("x",), BYTES) is None
    _kept(tables, A)
    assert BYTES < tables.counts().bytes < KEPT
    found = tables.find(A, ("x",))
    assert found is not None
    assert pa.Table.from_batches(found)["x"].to_pylist() == list(range(ROWS))
    assert (tables.counts().hits, tables.counts().misses) == (1, 0)
    assert tables.find(B, ("x",)) is None
    assert tables.counts().misses == 1


def test_columns() -> None:
    """A cached table answers for any of its columns in any order, and for no other column."""
    tables = DecodedTables(10 * KEPT)
    copy = _again(tables, A, ("x", "y"))
    for start in (0, ROWS):
        copy.add([_numbers(start), pa.array([f"text {start}"] * ROWS)])
    copy.keep()
    found = tables.find(A, ("y", "x", "y"))
    assert found is not None
    table = pa.Table.from_batches(found)
    assert table.column_names == ["y", "x", "y"]
    assert table.column(1).to_pylist() == list(range(2 * ROWS))
    assert set(table.column(2).to_pylist()) == {"text 0", f"text {ROWS}"}
    assert tables.find(A, ("z",)) is None


def test_bound() -> None:
    """The table that was used least recently makes room; a table that cannot fit leaves nothing behind."""
    tables = DecodedTables(2 * KEPT)
    _kept(tables, A)
    _kept(tables, B)
    assert tables.find(A, ("x",)) is not None
    _kept(tables, Path("c"))
    assert tables.find(B, ("x",)) is None
    assert tables.find(A, ("x",)) is not None
    copy = _again(tables, B)
    for start in range(3):
        copy.add([_numbers(start)])
    copy.keep()
    assert not copy.wanted
    assert tables.find(B, ("x",)) is None
    assert tables.counts().bytes <= 2 * KEPT
    assert tables.start_copy(B, ("x",), BYTES) is None, "a table that did not fit is not tried again"
    assert tables.start_copy(A, ("x",), 3 * BYTES) is None


def test_nothing_kept() -> None:
    """Without room the cache takes no table."""
    tables = DecodedTables(0)
    assert [tables.start_copy(A, ("x",), BYTES) for _ in range(3)] == [None] * 3


def test_half_read() -> None:
    """A read that does not reach the end keeps nothing, and the next read can."""
    tables = DecodedTables(10 * KEPT)
    copy = _again(tables, A)
    copy.add([_numbers()])
    assert tables.start_copy(A, ("x",), BYTES) is None
    copy.close()
    copy.keep()
    assert (tables.find(A, ("x",)), tables.counts().bytes) == (None, 0)
    _kept(tables, A)
    assert tables.counts().tables == 1


@pytest.mark.parametrize("finished", [True, False])
def test_forget(finished: bool) -> None:
    """A changed table is dropped, also one that is being read in; its memory counts until its last reader ends."""
    tables = DecodedTables(10 * KEPT)
    copy = _again(tables, A)
    copy.add([_numbers()])
    if finished:
        copy.keep()
    found = tables.find(A, ("x",))
    tables.forget(A)
    copy.add([_numbers()])
    copy.keep()
    assert tables.find(A, ("x",)) is None
    assert (found is not None) is finished
    if found is not None:
        assert BYTES < tables.counts().bytes < KEPT
        assert pa.Table.from_batches(found).num_rows == ROWS
        del found
    assert tables.counts().bytes == 0


def test_late_readers_fill_the_room() -> None:
    """The memory of changed tables that clients still read leaves less room for further tables."""
    tables = DecodedTables(2 * KEPT)
    readers = []
    for version in range(2):
        _kept(tables, Path(f"version {version}"))
        readers.append(tables.find(Path(f"version {version}"), ("x",)))
        tables.forget(Path(f"version {version}"))
    copy = _again(tables, B)
    copy.add([_numbers()])
    assert not copy.wanted
    assert BYTES < tables.counts().bytes - BYTES < KEPT + BYTES
    copy.close()
    readers.clear()
    assert tables.counts().bytes == 0
    _kept(tables, B)
    assert tables.counts().tables == 1


def test_shrink() -> None:
    """Under memory pressure the oldest tables go, then those that are read in, and only as many as are asked for."""
    tables = DecodedTables(10 * KEPT)
    for folder in (A, B):
        _kept(tables, folder)
    copy = _again(tables, Path("c"))
    copy.add([_numbers()])
    assert BYTES < tables.shrink(1) < KEPT
    assert copy.wanted
    assert tables.find(A, ("x",)) is None
    assert tables.find(B, ("x",)) is not None
    assert 2 * BYTES < tables.shrink(10 * BYTES) < 2 * KEPT
    assert not copy.wanted
    assert tables.counts().bytes == tables.shrink(1) == 0
    assert [tables.start_copy(A, ("x",), BYTES) for _ in range(3)] == [None] * 3, "the cache pauses"


def test_columns_beside_each_other() -> None:
    """Reads of different columns keep theirs, and a read of all columns takes the place of both."""
    tables = DecodedTables(10 * KEPT)
    cases: list[tuple[tuple[str, ...], int]] = [(("x", "y"), 1), (("x", "z"), 2), (("x", "y", "z"), 1)]
    for names, count in cases:
        copy = _again(tables, A, names)
        copy.add([_numbers()] * len(names))
        copy.keep()
        assert tables.find(A, names) is not None
        assert tables.counts().tables == count


def test_closed_by_the_garbage_collector() -> None:
    """A reading that the collector closes in a thread that holds the cache's lock neither waits nor stays."""
    tables = DecodedTables(10 * KEPT)
    copy = _again(tables, A)
    copy.add([_numbers()])
    with tables._lock:
        copy.close()
    assert tables.counts().bytes == 0
    _kept(tables, A)
    assert tables.counts().tables == 1


def test_a_failed_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no memory for a copy, the table is not kept, and the query goes on."""

    def none(_self: Room, size: int) -> pa.Buffer:
        raise OSError(12, f"Cannot allocate {size} bytes")

    tables = DecodedTables(10 * KEPT)
    with monkeypatch.context() as patched:
        patched.setattr(Room, "memory", none)
        copy = _again(tables, A)
        copy.add([_numbers()])
        copy.keep()
    assert (tables.counts().bytes, tables.counts().tables) == (0, 0)
    copy.close()
    _kept(tables, A)
    assert tables.counts().tables == 1


def test_a_stalled_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose client stopped reading leaves its place to the next reader of the table."""
    tables = DecodedTables(10 * KEPT)
    stalled = _again(tables, A)
    stalled.add([_numbers()])
    assert tables.start_copy(A, ("x",), BYTES) is None
    monkeypatch.setattr(decoded, "_STALLED_SECONDS", 0.0)
    _kept(tables, A)
    stalled.add([_numbers()])
    stalled.keep()
    stalled.close()
    found = tables.find(A, ("x",))
    assert found is not None
    assert pa.Table.from_batches(found).num_rows == ROWS
