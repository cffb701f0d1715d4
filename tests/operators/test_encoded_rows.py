"""Rows whose texts are kept once are the same rows, and take less memory."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.config import LimitsConfig
from flightllm.operators.encoded_rows import EncodedRows
from flightllm.session.database import Database
from tests.databases import ask, canonical, small_database

SCHEMA = pa.schema([("t", pa.string()), ("n", pa.int64()), ("u", pa.string())])
ROWS = st.tuples(st.sampled_from([None, "", "a", "é"]), st.integers(0, 5), st.sampled_from([None, "x", "y"]))


def batch(rows: Sequence[tuple[str | None, int, str | None]]) -> pa.RecordBatch:
    """Make a batch of rows."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
    )


@pytest.mark.parametrize("least", [1, 1 << 24])
@pytest.mark.parametrize("encoded", [(), (0,), (2, 0)])
@given(batches=st.lists(st.lists(ROWS, max_size=6), max_size=6))
def test_same_rows(
    least: int, encoded: tuple[int, ...], batches: list[list[tuple[str | None, int, str | None]]]
) -> None:
    """All rows come back in their order and in their batches, however often texts are encoded on the way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flightllm.operators.encoded_rows._LEAST_WAITING", least)
        rows = EncodedRows(SCHEMA, encoded, room=1 << 30)
        for one in batches:
            rows.add(batch([("before", 0, "before"), *one]).slice(1))
        rows.seal()
    assert rows.rows == sum(map(len, batches))
    assert list(rows.batches()) == [batch(one) for one in batches]
    whole = [row for one in batches for row in one]
    assert rows.take(pa.array(range(len(whole))[::-1], pa.int64())) == batch(whole[::-1])
    for column in encoded:
        found = rows.column(column)
        assert found.to_pylist() == [row[column] for row in whole]
        assert sorted(found.dictionary.to_pylist()) == sorted(
            {str(row[column]) for row in whole if row[column] is not None}
        )


def test_small_batches_are_joined() -> None:
    """Many batches of a few rows are kept as few batches, and come back as they were added."""
    rows = EncodedRows(SCHEMA, (0,), room=1 << 30)
    added = [batch([("a", number, None if number % 2 else str(number))] * (number % 3)) for number in range(2_500)]
    for one in added:
        rows.add(one)
        assert len(rows._batches) <= 1_001
    kept = sum(one.nbytes for one in rows._batches)
    assert rows._bytes == kept
    rows.seal()
    assert list(rows.batches()) == added


def test_repeated_texts_take_little_memory() -> None:
    """Rows with few distinct texts take far less memory than the texts of all rows, before and after `seal`."""
    rows = EncodedRows(SCHEMA, (0,), room=1 << 30)
    whole = batch([(f"{number % 10} {'long ' * 1_000}", number, "u") for number in range(1_000)])
    for _ in range(10):
        rows.add(whole)
    assert rows.nbytes < whole.nbytes * 5
    rows.seal()
    assert rows.nbytes < whole.nbytes / 10


def test_memory_while_encoding_counts() -> None:
    """While texts wait, the next dictionary counts too; repeated texts never fill a room that has space for both."""
    room = 1 << 20
    rows = EncodedRows(SCHEMA, (0,), room)
    one = batch([("x" * 10_000, 0, "u")])
    rows.add(one)
    assert rows.nbytes > 2 * 10_000
    for number in range(1_000):
        rows.add(batch([(f"{number % 40} {'x' * 10_000}", 0, "u")]))
        assert rows.nbytes <= room
    distinct = 0
    while rows.nbytes <= room:
        distinct += 1
        rows.add(batch([(f"{distinct} {'y' * 10_000}", 0, "u")]))
    assert distinct < 20


@pytest.mark.slow
def test_one_repeated_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows of one text take a part of the room at a time, and cost one prompt."""
    taken: list[int] = []
    take = EncodedRows.take

    def watched(rows: EncodedRows, numbers: pa.Array) -> pa.RecordBatch:
        found = take(rows, numbers)
        taken.append(found.nbytes)
        return found

    monkeypatch.setattr(EncodedRows, "take", watched)
    database = small_database(tmp_path, limits=LimitsConfig(memory_bytes=64 << 20))
    database.session().update(
        "CREATE TABLE same AS SELECT value AS id, repeat('long ', 200) AS k FROM generate_series(1, 10000)"
    )
    ran = ask(database.session(), "SELECT id, ai_gen('x', k) AS g FROM same")
    database.close()
    assert ran.calls == 1
    assert sorted(row["id"] for row in ran.rows) == list(range(1, 10_001))
    assert len({row["g"] for row in ran.rows}) == 1
    assert sum(taken) > 10_000_000
    assert max(taken) <= (64 << 20) // 8 // 8


@pytest.mark.parametrize("where", ["", pytest.param("WHERE ai_filter('Is it good?', k)", marks=pytest.mark.slow)])
def test_same_answers_on_disk(small: tuple[Database, Database], tmp_path: Path, where: str) -> None:
    """A query gives the same rows if the operator's rows fit into memory, and if they go to disk."""
    sql = f"SELECT id, k, ai_gen('x', k) AS g FROM wide {where}"
    tables, calls, spilled = [], [], []
    for database in small:
        result = database.session().execute(sql)
        with closing(result.batches) as rows:
            first = next(rows)
            spilled.append(len(list(tmp_path.rglob("*.arrow"))))
            tables.append(canonical(pa.Table.from_batches([first, *rows], result.schema)))
        calls.append(result.query.row()["calls"])
        database.close()
    assert spilled == [0, 1]
    assert tables[0] == tables[1]
    assert calls[0] == calls[1]


@pytest.fixture
def small(tmp_path: Path) -> tuple[Database, Database]:
    """Return two databases with the same table: only the first one has room for the operator's rows in memory."""
    made = []
    for memory in (1 << 30, 100 << 20):
        limits = LimitsConfig(memory_bytes=memory, spill_folder=tmp_path)
        database = small_database(tmp_path / str(memory), limits=limits)
        database.session().update(
            "CREATE TABLE wide AS SELECT value AS id, 'key ' || (value % 9000) || repeat(' long', 400) AS k"
            " FROM generate_series(1, 12000)",
        )
        made.append(database)
    return made[0], made[1]
