"""Rows between stages: in memory while few, on disk beyond that, and gone afterwards."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from datafusion import SessionContext

from flightllm.config import LimitsConfig
from flightllm.errors import CancelledError, LimitExceededError
from flightllm.operators.runtime import SpoolLimits, spool
from flightllm.session.database import Database
from tests.databases import ask, canonical, small_database

SCHEMA = pa.schema([("c0", pa.int64()), ("c1", pa.string())])
WIDE = """CREATE TABLE wide AS SELECT value AS id, 'key ' || (value % 70) || repeat(' long', 80) AS k
FROM generate_series(1, 60000)"""
SQL = """SELECT id, ai_gen('y', b => ai_gen('x', k)) AS g, sum(ai_score('z', k)) OVER (PARTITION BY k) AS s
FROM wide"""


def batches() -> Iterator[pa.RecordBatch]:
    """Make ten batches of a thousand rows."""
    for start in range(0, 10_000, 1_000):
        ids = list(range(start, start + 1_000))
        yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array([f"text {i}" for i in ids])], schema=SCHEMA)


def test_disk_is_bounded(tmp_path: Path) -> None:
    """What all stage inputs of a query keep on disk counts together; the error names the limit, and how much it was."""
    context, room = SessionContext(), SpoolLimits(1, 400_000)
    fill = partial(spool, context, schema=SCHEMA, room=room, folder=tmp_path, cancelled=lambda: False)
    fill("first", batches=batches())
    with pytest.raises(LimitExceededError, match=r"on disk between its steps; \[limits\] spill_bytes = 400,000 is"):
        fill("second", batches=batches())


@pytest.mark.parametrize(("memory", "files"), [(1 << 30, 0), (50_000, 1), (1, 1)])
def test_place(tmp_path: Path, memory: int, files: int) -> None:
    """Rows are all there wherever they are kept, and a table can be filled again."""
    context = SessionContext()
    for _ in range(2):
        room = SpoolLimits(memory, 1 << 30)
        rows = spool(context, "stage_input", SCHEMA, batches(), room=room, folder=tmp_path, cancelled=lambda: False)
        assert rows.rows == 10_000
        assert (rows.batches is None) == bool(files)
        (total,) = context.sql("SELECT sum(c0) AS n, count(DISTINCT c1) AS d FROM stage_input").to_pylist()
        assert total == {"n": sum(range(10_000)), "d": 10_000}
    assert len(list(tmp_path.iterdir())) == 2 * files


@pytest.mark.parametrize("memory", [1 << 30, 1])
def test_empty(tmp_path: Path, memory: int) -> None:
    """No rows are a table without rows."""
    context = SessionContext()
    rows = spool(
        context, "stage_input", SCHEMA, [], room=SpoolLimits(memory, 1 << 30), folder=tmp_path, cancelled=lambda: False
    )
    assert rows.rows == 0
    assert context.sql("SELECT * FROM stage_input").to_arrow_table().num_rows == 0


@pytest.mark.parametrize("memory", [1 << 30, 1])
def test_cancelled(tmp_path: Path, memory: int) -> None:
    """Filling a table stops at the next batch after the query was cancelled."""
    cancelled = Event()
    pulled: list[int] = []

    def endless() -> Iterator[pa.RecordBatch]:
        for number in count():
            pulled.append(number)
            if number == 5:
                cancelled.set()
            yield from batches()

    with pytest.raises(CancelledError):
        spool(
            *(SessionContext(), "stage_input", SCHEMA, endless()),
            room=SpoolLimits(memory, 1 << 30),
            folder=tmp_path,
            cancelled=cancelled.is_set,
        )
    assert pulled[-1] == 5


@pytest.fixture
def spills(tmp_path: Path) -> Path:
    """Return the folder for spilling."""
    folder = tmp_path / "spills"
    folder.mkdir()
    return folder


@pytest.fixture
def database(tmp_path: Path, spills: Path) -> Iterator[Database]:
    """Open a database that keeps sixteen megabytes between two stages."""
    database = small_database(tmp_path, limits=LimitsConfig(memory_bytes=128 << 20, spill_folder=spills))
    database.session().update(WIDE)
    yield database
    database.close()


@pytest.mark.slow
def test_same_on_disk(tmp_path: Path, database: Database, spills: Path) -> None:
    """A query whose stages go to disk returns what it returns in memory, and leaves no file."""
    roomy = small_database(tmp_path / "roomy")
    roomy.session().update(WIDE)
    expected = ask(roomy.session(), SQL).table
    roomy.close()
    result, found = database.session().execute(SQL), []
    with closing(result.batches) as rows:
        found.append(next(rows))
        assert list(spills.rglob("*.arrow"))
        found += rows
    assert canonical(pa.Table.from_batches(found, result.schema)) == canonical(expected)
    assert not list(spills.rglob("flightllm-*"))


def test_removed_after_closing_early(database: Database, spills: Path) -> None:
    """A result closed after its first batch leaves no file either."""
    result = database.session().execute("SELECT id, ai_gen('x', k || id) FROM wide")
    with closing(result.batches) as rows:
        next(rows)
        assert list(spills.rglob("*.arrow"))
    assert not list(spills.rglob("flightllm-*"))
