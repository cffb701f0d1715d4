"""Queries in processes of their own return what they return in the server's process, and can be ended at any moment."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from flightllm.access.store import User
from flightllm.catalog.shipping import shipped
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig, LimitsConfig
from flightllm.errors import CancelledError, FlightLLMError, LimitExceededError, UnsupportedError
from flightllm.execution import batch_query, isolated, plain_query, staged_query
from flightllm.plan.bounds import Unbounded
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.servers import await_true

MEMORY = 96 << 20
ENDLESS = "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))"
SKEWED = (
    "SELECT count(*) FROM wide a JOIN wide b ON a.n % 2 = b.n % 2 AND a.n < b.n",
    "SELECT count(*) FROM wide a, wide b WHERE a.few = b.few AND a.n < b.n",
)
"""Joins that find so many rows for each that DataFusion does not stop meanwhile; the second by what the table has."""
LARGE = "SELECT count(*) FROM (SELECT unnest(range(0, 1000000000000)) AS x)"
WHOLE = (
    "SELECT * FROM files ORDER BY a",
    "SELECT * FROM lines",
    "SELECT * FROM objects",
    "SELECT * FROM arrows",
    "SELECT * FROM encoded",
    "SELECT count(*) AS n, min(n) AS least FROM made",
    "SELECT * FROM empty",
    "SELECT n, NULL AS nothing FROM made WHERE n < 0",
    "SELECT n1 FROM small WHERE n1 < 5 ORDER BY n1 DESC",
    "SELECT m.n, a.n FROM made m JOIN made a ON m.n = a.n WHERE EXISTS (SELECT 1 FROM small) ORDER BY 1 LIMIT 3",
    "SELECT table_name FROM information_schema.tables ORDER BY 1",
    "SELECT name, value FROM system.settings ORDER BY 1, 2 LIMIT 5",
    "SELECT TIMESTAMP '2024-01-02 03:04:05+01:00' AS t, INTERVAL '1 day' AS i, DECIMAL '1.5' AS d, [1, NULL] AS l",
    "SELECT CASE WHEN n < 50 THEN 1 ELSE 2.5 END AS mixed FROM made ORDER BY n",
    "SELECT n FROM made UNION ALL SELECT 'x' ORDER BY 1 LIMIT 4",
    "SELECT ai_count_tokens('some words') + n FROM made ORDER BY 1 LIMIT 2",
    "SELECT list_transform([n, 2], x -> x + n) AS l FROM made WHERE any_match([n], x -> x > 1) ORDER BY n",
    'SELECT n AS "Name with ""quotes""" FROM made ORDER BY 1 LIMIT 1',
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) SELECT * FROM r",
    "SELECT n, ai_gen('Of {n}?', n) AS said FROM made WHERE n < 4 ORDER BY n",
    "SELECT upper(ai_gen('Of {n}?', n)) AS said FROM made WHERE n < 4 AND ai_filter('Is {n} odd?', n) ORDER BY n",
)
FAILING = (
    "SELECT CAST('a' || CAST(n AS VARCHAR) AS BIGINT) FROM made",
    "SELECT 1 / (n - n) FROM made",
    "SELECT CAST('2024-13-01' AS DATE)",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with tables of every kind, and users who see a part of one."""
    folder = tmp_path_factory.mktemp("isolated")
    pq.write_table(pa.table({"a": [1, 2, None], "b": ["x", None, "z"]}), folder / "files.parquet")
    (folder / "lines.csv").write_text("x,y\n1,a\n,b\n")
    (folder / "objects.jsonl").write_text('{"k": 1, "s": {"t": "u"}}\n{"k": 2}\n')
    feather.write_feather(pa.table({"q": [1.5, None]}), folder / "arrows.arrow", compression="uncompressed")
    encoded = {"code": pa.array(["x", "y", None]).dictionary_encode(), "large": pa.array(["x"] * 3, pa.large_string())}
    feather.write_feather(pa.table(encoded), folder / "encoded.arrow", compression="uncompressed")
    names = ("files.parquet", "lines.csv", "objects.jsonl", "arrows.arrow", "encoded.arrow")
    config = Config(
        engine=EngineConfig(kind="fake"),
        limits=LimitsConfig(memory_bytes=MEMORY, isolated_statements=2),
        data_folder=folder / "data",
        tables={Path(name).stem: folder / name for name in names},
    )
    with closing(Database.open(config)) as database:
        admin = database.session()
        admin.update("CREATE TABLE made AS SELECT value AS n, 'text' AS t FROM generate_series(1, 100)")
        admin.update("CREATE TABLE wide AS SELECT value AS n, value % 2 AS few FROM generate_series(1, 100000)")
        admin.update("CREATE TABLE empty (n INT, t VARCHAR NOT NULL)")
        admin.update("CREATE TABLE allowed AS SELECT 3 AS n")
        admin.update("CREATE VIEW small (n1) AS SELECT n + 1 FROM made WHERE n < 10")
        for user in (User("root", "admin"), User("ann", "user")):
            database.access.store.add_user(user)
        admin.update("GRANT SELECT ON TABLE made TO ann")
        admin.update("CREATE ROW FILTER ON made TO ann AS n IN (SELECT n FROM allowed) OR t = current_user")
        admin.update("CREATE COLUMN MASK ON made(t) TO ann AS 'hidden'")
        yield database


@pytest.fixture
def session(database: Database) -> Session:
    """Open an admin's session."""
    return database.session()


@pytest.fixture
def everything_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every query run in processes of their own."""
    for module in (plain_query, batch_query, staged_query, isolated):
        monkeypatch.setattr(module, "unbounded", lambda *_: Unbounded("a test wants it"))


def _rows(session: Session, sql: str) -> pa.Table:
    result = session.execute(sql)
    with closing(result.batches) as batches:
        return pa.Table.from_batches(batches, result.schema)


def _error(session: Session, sql: str) -> FlightLLMError:
    with pytest.raises(FlightLLMError) as caught:
        _rows(session, sql)
    return caught.value


@pytest.mark.parametrize("sql", WHOLE)
def test_same_rows(session: Session, sql: str, request: pytest.FixtureRequest) -> None:
    """Names, types, order and values of a result are the same in both processes, over every kind of table."""
    here = _rows(session, sql)
    request.getfixturevalue("everything_isolated")
    there = _rows(session, sql)
    assert there.schema == here.schema
    assert there.equals(here)


@pytest.mark.parametrize("sql", FAILING)
def test_same_errors(session: Session, sql: str, request: pytest.FixtureRequest) -> None:
    """A failing query fails with the same error."""
    here = _error(session, sql)
    request.getfixturevalue("everything_isolated")
    there = _error(session, sql)
    assert (type(there), str(there), there.limit) == (type(here), str(here), here.limit)


@pytest.mark.usefixtures("everything_isolated")
def test_rights(database: Database) -> None:
    """A user sees the rows that its row filter leaves, with masks, in a process that is told of no other table."""
    ann = Principal("ann", "user")
    session = database.session(ann)
    assert _rows(session, "SELECT n, t FROM made").to_pylist() == [{"n": 3, "t": "hidden"}]
    assert isinstance(_error(session, "SELECT * FROM allowed"), FlightLLMError)
    told = shipped(database.catalog_of(ann), "SELECT * FROM made, allowed, files, small")
    assert [table.name.name for table in told.seen] == ["made"]
    assert {table.name.name for table in told.below} == {"made", "allowed"}


def test_memory(session: Session) -> None:
    """A query that takes much more than it may ends with an error that names the limit; the next one runs."""
    for sql in (LARGE, "SELECT lpad('a', 2000000000, 'xy')", "SELECT repeat('ab', 40000000) AS x"):
        error = _error(session, sql)
        assert isinstance(error, LimitExceededError), sql
        assert "[limits] memory_bytes" in str(error)
        assert error.limit == "memory_bytes"
    assert _rows(session, "SELECT repeat('a', 3) AS x").to_pylist() == [{"x": "aaa"}]


@pytest.mark.parametrize("sql", [ENDLESS, pytest.param(f"EXPLAIN ANALYZE {ENDLESS}", marks=pytest.mark.slow), *SKEWED])
def test_cancel(session: Session, sql: str) -> None:
    """A query that is cancelled ends with its process."""
    isolation = session._all.isolation
    result = session.execute(sql)
    failed = list[BaseException]()

    def pull() -> None:
        try:
            list(result.batches)
        except CancelledError as error:
            failed.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    await_true(lambda: isolation.running == 1)
    (process,) = isolation._busy
    result.query.cancel()
    thread.join(30)
    assert len(failed) == 1
    assert not process.alive
    assert isolation.running == 0


@pytest.mark.slow
def test_closed(session: Session) -> None:
    """A query whose batches are closed before their end leaves no process, and gives its place back."""
    for _ in range(2):
        result = session.execute("SELECT repeat(CAST(value AS VARCHAR), 100) AS x FROM generate_series(1, 10000000)")
        next(iter(result.batches))
        assert session._all.isolation.running == 1
        result.batches.close()
        assert session._all.isolation.running == 0
    assert session._all.isolation.places.running == 0


@pytest.mark.slow
@pytest.mark.usefixtures("everything_isolated")
def test_turns(database: Database, session: Session) -> None:
    """A user who waits for a place gets the next one, before the statements of another who came first."""
    isolation, order, threads = session._all.isolation, list[str](), list[threading.Thread]()
    places, ann = isolation.places, database.session(Principal("ann", "user"))
    held = [isolation.admit("local", lambda: False) for _ in range(2)]
    for name, asks in (("local", session), ("local", session), ("ann", ann)):

        def run(name: str = name, asks: Session = asks) -> None:
            with closing(asks.execute("SELECT n FROM made").batches) as batches:
                next(iter(batches))
                order.append(name)

        queued = places.queued
        threads.append(threading.Thread(target=run))
        threads[-1].start()
        await_true(lambda queued=queued: places.queued > queued)  # type: ignore[misc]
    held[0].release()
    for thread in threads:
        thread.join(60)
    held[1].release()
    assert order == ["ann", "local", "local"]
    assert (places.running, places.queued) == (0, 0)


def test_killed(session: Session) -> None:
    """A process that dies fails its own query alone, and another takes its place; nothing is quarantined."""
    isolation = session._all.isolation
    result = session.execute("SELECT repeat(CAST(value AS VARCHAR), 100) AS x FROM generate_series(1, 10000000)")
    next(iter(result.batches))
    (process,) = isolation._busy
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(LimitExceededError, match="memory_bytes"):
        list(result.batches)
    result = session.execute("SELECT repeat(CAST(value AS VARCHAR), 100) AS x FROM generate_series(1, 10000000)")
    next(iter(result.batches))
    (process,) = isolation._busy
    os.kill(process.pid, signal.SIGSEGV)
    with pytest.raises(UnsupportedError, match="DataFusion cannot work on this statement"):
        list(result.batches)
    assert _rows(session, "SELECT repeat('a', 3) AS x").to_pylist() == [{"x": "aaa"}]


def test_no_further_process(session: Session) -> None:
    """Where nobody called `warm`, the process of one query waits for the next, and no other starts beside it."""
    sql, isolation = "SELECT repeat(t, n) AS x FROM made WHERE n = 1", session._all.isolation
    _rows(session, sql)
    processes = list(isolation._spares)
    assert processes
    _rows(session, sql)
    assert isolation._spares == processes


@pytest.mark.slow
def test_spare_killed(session: Session) -> None:
    """A spare process that died is replaced before a query takes it."""
    isolation = session._all.isolation
    isolation.warm()
    await_true(lambda: bool(isolation._spares))
    killed = list(isolation._spares)
    for process in killed:
        os.kill(process.pid, signal.SIGKILL)
        process._process.wait()
    assert _rows(session, "SELECT repeat(t, n) AS x FROM made WHERE n = 2").to_pylist() == [{"x": "texttext"}]
    await_true(lambda: all(process._said.closed for process in killed))


def test_changes(session: Session) -> None:
    """Values without a bound go into tables; a statement that cannot compute them says so and changes nothing."""
    session.update("CREATE OR REPLACE TABLE target (a BIGINT, b VARCHAR DEFAULT 'none')")
    assert session.update("INSERT INTO target (b) VALUES (repeat('x', 2)), ('y')") == 2
    assert session.update("INSERT INTO target SELECT n, repeat(t, 2) FROM made WHERE n < 3") == 2
    rows = [(None, "xx"), (None, "y"), (1, "texttext"), (2, "texttext")]
    assert [tuple(row.values()) for row in _rows(session, "SELECT * FROM target").to_pylist()] == rows
    for sql in (
        "UPDATE target SET b = repeat(b, 1000000 * 1000)",
        "DELETE FROM target WHERE repeat(b, 1000000 * 1000) = b",
    ):
        with pytest.raises(UnsupportedError, match="CREATE OR REPLACE TABLE"):
            session.update(sql)
    with pytest.raises(UnsupportedError, match="DEFAULT"):
        session.update("CREATE TABLE other (a VARCHAR DEFAULT repeat('a', 1000000 * 1000))")
    assert len(_rows(session, "SELECT * FROM target")) == len(rows)


@pytest.mark.usefixtures("everything_isolated")
def test_temporary_tables(session: Session) -> None:
    """A process of its own sees the temporary tables of the session, also for a part of a query with AI calls."""
    session.update("CREATE TEMP TABLE mine AS SELECT n FROM made WHERE n < 4")
    assert _rows(session, "SELECT n FROM mine ORDER BY n").to_pylist() == [{"n": 1}, {"n": 2}, {"n": 3}]
    said = _rows(session, "SELECT n, ai_gen('Of {n}?', n) AS said FROM mine ORDER BY n")
    assert [row["n"] for row in said.to_pylist() if row["said"]] == [1, 2, 3]


def test_views_and_plans(session: Session) -> None:
    """A view whose text has no bound is made and described without computing it, and EXPLAIN says where it runs."""
    session.update(f"CREATE OR REPLACE VIEW heavy AS {LARGE.replace('count(*)', 'count(*) AS n')}")
    assert session.describe("SELECT n FROM heavy").schema.names == ["n"]
    assert isinstance(_error(session, "SELECT n + 1 FROM heavy"), LimitExceededError)
    plan = dict(zip(*_rows(session, "EXPLAIN SELECT n FROM heavy").to_pydict().values(), strict=True))
    assert "separate process" in plan["isolation"]
    assert "AggregateExec" in plan["physical_plan"]
    session.update("DROP VIEW heavy")
