"""Reads of whole tables: from memory when repeated, never stale, and always within the user's rights."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import CancelledError, LimitExceededError, UnknownTableError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database, rows

CREATE = "CREATE TABLE t AS SELECT value AS a, CAST(value AS VARCHAR) AS b FROM generate_series(1, 1000)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with the table t of 1,000 rows."""
    database = open_database(tmp_path)
    database.session().update(CREATE)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session in which t was read often enough to be in memory."""
    session = database.session()
    for _ in range(3):
        assert len(rows(session, "SELECT * FROM t")) == 1_000
    assert (database.decoded.hits, database.decoded.tables) == (1, 1)
    return session


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM t", ["a", "b"]),
        ("SELECT b, a AS x FROM t", ["b", "x"]),
        ("SELECT a, a AS again FROM t", ["a", "again"]),
        ("SELECT u.b FROM t AS u", ["b"]),
    ],
)
def test_from_memory(database: Database, session: Session, sql: str, columns: list[str]) -> None:
    """A query of columns finds them in memory, under the names and in the order that it asks for."""
    found = session.execute(sql)
    table = pa.Table.from_batches(list(found.batches), found.schema)
    assert database.decoded.hits == 2
    assert table.column_names == columns
    for place, name in enumerate(columns):
        values = table.column(place).to_pylist()
        assert sorted(map(int, values)) == list(range(1, 1_001)), name
    assert found.query.row()["rows"] == 1_000
    assert found.query.row()["bytes"] == table.nbytes


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT a FROM t LIMIT 3", 3),
        ("SELECT a FROM t WHERE a > 990", 10),
        ("SELECT a + 1 FROM t", 1_000),
        ("SELECT DISTINCT a FROM t", 1_000),
        ("SELECT a FROM (SELECT a FROM t WHERE a < 5) AS t", 4),
        ("SELECT x.a FROM t AS x JOIN t AS y ON x.a = y.a", 1_000),
        ("SELECT 1 FROM t", 1_000),
        ("SELECT concat(b, 'x') FROM t", 1_000),
    ],
)
def test_other_queries(database: Database, session: Session, sql: str, count: int) -> None:
    """Every other query is computed."""
    assert len(rows(session, sql)) == count
    assert database.decoded.hits == 1


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("INSERT INTO t VALUES (5, 'x')", 1_001),
        ("UPDATE t SET b = 'x' WHERE a = 1", 1_000),
        ("DELETE FROM t WHERE a <= 10", 990),
        ("CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 'x' AS b", 1),
    ],
)
def test_never_stale(database: Database, session: Session, change: str, count: int) -> None:
    """A changed table leaves memory at once, and all further reads have the new rows."""
    session.update(change)
    assert database.decoded.bytes == 0
    for _ in range(3):
        found = rows(session, "SELECT * FROM t")
        assert len(found) == count
        assert ("x" in {row["b"] for row in found}) is not change.startswith("DELETE")


def test_drop(database: Database, session: Session) -> None:
    """A dropped table frees its memory; a read that has begun still gets its rows."""
    reading = session.execute("SELECT * FROM t")
    session.update("DROP TABLE t")
    assert database.decoded.bytes == 0
    assert sum(batch.num_rows for batch in reading.batches) == 1_000
    assert database.decoded.bytes == 0


def test_changed_while_read(database: Database) -> None:
    """Rows of a table that changes while it is read do not get into memory."""
    session = database.session()
    rows(session, "SELECT * FROM t")
    reading = session.execute("SELECT * FROM t")
    first = next(reading.batches)
    session.update("DELETE FROM t WHERE a = 1")
    assert first.num_rows + sum(batch.num_rows for batch in reading.batches) == 1_000
    assert (database.decoded.tables, database.decoded.bytes) == (0, 0)


def test_planned_before_change(database: Database, session: Session) -> None:
    """A query that was planned before a change returns the rows of that time and keeps nothing of them."""
    before = [session.execute("SELECT * FROM t") for _ in range(2)]
    session.update("DELETE FROM t WHERE a > 1")
    assert [sum(batch.num_rows for batch in reading.batches) for reading in before] == [1_000] * 2
    assert database.decoded.bytes == 0
    assert len(rows(session, "SELECT * FROM t")) == 1


@pytest.mark.parametrize("in_memory", [False, True])
def test_cancel(database: Database, in_memory: bool) -> None:
    """A read that is cancelled between two batches ends with the cancellation and keeps nothing more in memory."""
    session = database.session()
    session.update("CREATE TABLE large AS SELECT value AS a FROM generate_series(1, 300000)")
    for _ in range(2 if in_memory else 1):
        rows(session, "SELECT a FROM large")
    before = database.decoded.bytes
    reading = session.execute("SELECT a FROM large")
    next(reading.batches)
    assert database.decoded.hits == in_memory
    assert in_memory or database.decoded.bytes > before, "the rows are copied into memory"
    reading.query.cancel()
    with pytest.raises(CancelledError):
        list(reading.batches)
    assert database.decoded.bytes == before
    assert not database.queries.running()


def test_closed_early(database: Database) -> None:
    """A read that its client ends early leaves nothing half-read in memory."""
    session = database.session()
    rows(session, "SELECT * FROM t")
    reading = session.execute("SELECT * FROM t")
    next(reading.batches)
    reading.batches.close()
    assert database.decoded.bytes == 0


def test_rights(database: Database, session: Session) -> None:
    """Rows in memory show a user no more than the user can see."""
    database.access.store.add_user(User("ann", "user"))
    ann = database.session(Principal("ann", "user"))
    with pytest.raises(UnknownTableError):
        rows(ann, "SELECT * FROM t")
    session.update("GRANT SELECT ON t TO ann")
    assert len(rows(ann, "SELECT * FROM t")) == 1_000
    assert database.decoded.hits == 2
    session.update("CREATE ROW FILTER ON t TO ann AS a <= 10")
    session.update("CREATE COLUMN MASK ON t(b) TO ann AS 'hidden'")
    for _ in range(3):
        found = rows(ann, "SELECT * FROM t")
        assert (len(found), {row["b"] for row in found}) == (10, {"hidden"})
    assert database.decoded.hits == 2
    assert len(rows(session, "SELECT * FROM t")) == 1_000


def test_result_limit(tmp_path: Path) -> None:
    """The limit of a result's bytes holds for rows from memory."""
    database = open_database(tmp_path, limits=LimitsConfig(result_bytes=20_000))
    session = database.session()
    session.update(CREATE)
    for _ in range(3):
        rows(session, "SELECT b FROM t")
    assert database.decoded.hits == 1
    with pytest.raises(LimitExceededError, match="result_bytes"):
        rows(session, "SELECT b, b AS x, b AS y, b AS z FROM t")
    assert database.decoded.hits == 2
    database.close()


def test_off(tmp_path: Path) -> None:
    """With table_cache_bytes = 0 every read decodes the file, and the cache counts nothing."""
    database = open_database(tmp_path, limits=LimitsConfig(table_cache_bytes=0))
    session = database.session()
    session.update(CREATE)
    for _ in range(3):
        assert len(rows(session, "SELECT * FROM t")) == 1_000
    assert (database.decoded.hits, database.decoded.misses, database.decoded.bytes) == (0, 0, 0)
    database.close()
