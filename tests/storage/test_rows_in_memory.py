"""Rows in memory come out as they went in."""

import pyarrow as pa

from flightllm.storage.rows_in_memory import Room, RowsInMemory

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("parts", pa.list_(pa.float64()))])


def _batch(start: int, rows: int) -> pa.RecordBatch:
    rows_of = [
        {"n": i if i % 3 else None, "text": f"text {i}" * (i % 5), "parts": [1.0] * (i % 4)} for i in range(rows)
    ]
    return pa.RecordBatch.from_pylist(
        [{**row, "n": start if row["n"] is None else row["n"]} for row in rows_of], SCHEMA
    )


def test_round_trip() -> None:
    """Batches of all sizes, slices among them, come back in order."""
    room = Room()
    rows = RowsInMemory(SCHEMA, room)
    given = [_batch(7, 100), _batch(0, 1_000).slice(10, 500), _batch(1, 1), _batch(2, 0)]
    for batch in given:
        rows.add(batch, rows.needed(batch))
    found = list(rows.finish())
    assert found == given
    assert room.used() > sum(batch.nbytes for batch in given)
    del rows, found[1:]
    assert room.used() > 0
    del found
    assert room.used() == 0


def test_chunks() -> None:
    """Rows of more than one chunk come back whole, and each chunk takes several batches."""
    rows = RowsInMemory(pa.schema([("n", pa.int64())]), Room())
    batch = pa.record_batch({"n": pa.array(range(600_000), pa.int64())})
    for _ in range(7):
        rows.add(batch, rows.needed(batch, 64 << 20))
    assert 1 < len(rows._chunks) < 7
    assert [found.equals(batch) for found in rows.finish()] == [True] * 7


def test_no_rows() -> None:
    """Without a batch there are no rows."""
    assert list(RowsInMemory(SCHEMA, Room()).finish()) == []
