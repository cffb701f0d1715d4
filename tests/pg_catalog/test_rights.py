"""The catalog shows a user only what the user can see now, and limits hold for its queries."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import (
    CancelledError,
    FlightLLMError,
    InternalError,
    LimitExceededError,
    NotFoundError,
    SqlError,
    UnsupportedError,
)
from flightllm.execution.cancel_token import stopped, stopped_by
from flightllm.observe.query_record import CancelToken
from flightllm.pg_catalog import translation
from flightllm.pg_catalog.engine import Engine
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database

pytest.importorskip("duckdb")

BOB = Principal("bob", "user")
NAMES = "SELECT relname FROM pg_class WHERE relname IN ('mine', 'shown', 'hidden', 'hidden_pkey') ORDER BY 1"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with a table that bob owns, one that bob can read in part, and one that bob cannot read."""
    database = open_database(tmp_path_factory.mktemp("rights"))
    database.access.store.add_user(User("bob", "user"))
    database.access.store.add_user(User("eve", "user"))
    admin = database.session()
    admin.update("CREATE TABLE hidden (a INTEGER NOT NULL, secret TEXT DEFAULT 'x', PRIMARY KEY (a))")
    admin.update("CREATE TABLE shown AS SELECT 1 AS a")
    admin.update("CREATE VIEW seen AS SELECT a FROM shown WHERE a <> 42")
    for grant in ("SELECT ON shown TO bob", "SELECT ON seen TO bob", "CREATE ON SCHEMA public TO bob"):
        admin.update(f"GRANT {grant}")
    admin.update("CREATE ROW FILTER ON shown TO bob AS a > 5")
    database.session(BOB).update("CREATE TABLE mine (k BIGINT, FOREIGN KEY (k) REFERENCES shown (a))")
    yield database
    database.close()


@pytest.fixture
def bob(database: Database) -> Session:
    """Return a session of bob's."""
    return database.session(BOB)


def values(session: Session, sql: str) -> list[object]:
    """Return the first column of a query."""
    found: list[object] = ask(session, sql).table.column(0).to_pylist()
    return found


def test_tables(database: Database, bob: Session) -> None:
    """A user finds neither the table, its columns, its key nor its default; an admin finds all."""
    assert values(bob, NAMES) == ["mine", "shown"]
    assert values(database.session(), NAMES) == ["hidden", "hidden_pkey", "mine", "shown"]
    for sql in (
        "SELECT attname FROM pg_attribute WHERE attname = 'secret'",
        "SELECT conname FROM pg_constraint WHERE conname LIKE 'hidden%'",
        "SELECT adbin FROM pg_attrdef",
        "SELECT typname FROM pg_type WHERE typname LIKE '%hidden'",
        "SELECT table_name FROM information_schema.table_constraints WHERE table_name = 'hidden'",
    ):
        assert values(bob, sql) == []
        assert values(database.session(), sql) != []


def test_functions(bob: Session) -> None:
    """Functions know no more than the tables."""
    with pytest.raises(NotFoundError, match="there is no relation 'hidden'"):
        values(bob, "SELECT 'hidden'::regclass")
    assert values(bob, "SELECT to_regclass('hidden')") == [None]
    with pytest.raises(NotFoundError, match="hidden"):
        values(bob, "SELECT has_table_privilege('hidden', 'SELECT')")
    with pytest.raises(UnsupportedError, match="only the rights of 'bob'"):
        values(bob, "SELECT has_table_privilege('eve', 'shown', 'SELECT')")
    privileges = "SELECT ARRAY[has_table_privilege('mine', 'INSERT'), has_table_privilege('shown', 'INSERT')]"
    assert values(bob, privileges) == [[True, False]]
    assert values(bob, "SELECT current_user || pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'mine'") == [
        "bobbob"
    ]


def test_contents_stay_hidden(bob: Session) -> None:
    """The size of a table with a row filter, and the text of another user's view, stay hidden."""
    assert values(bob, "SELECT reltuples FROM pg_class WHERE relname = 'shown'") == [-1]
    assert values(bob, "SELECT pg_total_relation_size('shown')") == [0]
    assert values(bob, "SELECT pg_get_viewdef('seen')") == [None]


def test_users_and_sessions(database: Database, bob: Session) -> None:
    """A user finds only sessions and users of the own name, and owners of visible tables."""
    assert set(values(bob, "SELECT usename FROM pg_stat_activity")) == {"bob"}
    assert "eve" not in values(bob, "SELECT rolname FROM pg_roles")
    assert "eve" in values(database.session(), "SELECT rolname FROM pg_roles")
    assert values(bob, "SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()") == [1]


def test_changes_show(database: Database, bob: Session) -> None:
    """A grant, a new table and a drop show in the next statement."""
    admin = database.session()
    admin.update("GRANT SELECT ON hidden TO bob")
    assert "hidden" in values(bob, NAMES)
    admin.update("REVOKE SELECT ON hidden FROM bob")
    assert "hidden" not in values(bob, NAMES)
    admin.update("CREATE TEMPORARY TABLE passing (a INTEGER)")
    assert values(admin, "SELECT relname FROM pg_class WHERE relname = 'passing'") == ["passing"]
    assert values(database.session(), "SELECT relname FROM pg_class WHERE relname = 'passing'") == []
    admin.update("DROP TABLE passing")
    assert values(admin, "SELECT relname FROM pg_class WHERE relname = 'passing'") == []


def test_it_can_be_cancelled(database: Database) -> None:
    """A cancelled query ends."""
    sql = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c WHERE a.attnum + b.attnum > c.attnum"
    result = database.session().execute(sql)
    failed = list[BaseException]()

    def run() -> None:
        try:
            list(result.batches)
        except FlightLLMError as error:
            failed.append(error)

    running = Thread(target=run)
    running.start()
    result.query.cancel()
    running.join(30)
    assert not running.is_alive()
    assert isinstance(failed[0], CancelledError)


@pytest.mark.parametrize("call", ["generate_series(1, 1000000000)", "generate_series(1000000000, 1, -1)"])
def test_series_are_limited(bob: Session, call: str) -> None:
    """A series that takes much memory has an error, in FROM and in SELECT."""
    for sql in (f"SELECT count(i) FROM {call} i, pg_am", f"SELECT {call} FROM pg_am"):
        with pytest.raises(FlightLLMError, match="more than 100,000 values"):
            ask(bob, sql)


def test_memory_is_limited(tmp_path: Path) -> None:
    """A query that needs more memory than one query can take has an error."""
    database = open_database(tmp_path, limits=LimitsConfig(memory_bytes=64 << 20))
    series = "generate_series(1, 1000) i, generate_series(1, 3000) j, pg_am"
    with pytest.raises(LimitExceededError, match="memory"):
        ask(database.session(), f"SELECT array_agg(i * 10000 + j) FROM {series}")
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sql FROM pg_class JOIN (WITH {0} AS (SELECT 1 x) SELECT * FROM {0}) q ON true JOIN {0} ON true",
        "WITH a AS (SELECT * FROM {0}), {0} AS (SELECT 1 x) SELECT * FROM a, pg_class",
        "WITH RECURSIVE a AS (SELECT * FROM {0}), {0} AS (SELECT 1 x) SELECT * FROM a, pg_class",
        "WITH {0} AS (SELECT * FROM {0}) SELECT * FROM {0}, pg_class",
        "WITH RECURSIVE {0} AS (SELECT * FROM {0}) SELECT * FROM {0}, pg_class",
        "SELECT (SELECT max(sql) FROM {0}) FROM pg_class",
        "SELECT * FROM pg_class, LATERAL {0}() d",
        "SELECT * FROM pg_class, {0}() d",
    ],
)
@pytest.mark.parametrize("name", ["duckdb_views", "sqlite_master"])
def test_no_table_of_the_engine(bob: Session, sql: str, name: str) -> None:
    """A name that WITH gives to a query means that query only in its scope, and never a table of the engine."""
    with pytest.raises(FlightLLMError):
        ask(bob, sql.format(name))


def test_queries_of_with(bob: Session) -> None:
    """A query of WITH can have any name, and hides a relation of that name."""
    assert values(bob, "WITH duckdb_views AS (SELECT 1 x) SELECT duckdb_views.x FROM duckdb_views, pg_am LIMIT 1") == [
        1
    ]
    assert values(bob, "WITH pg_class AS (SELECT 7 x FROM pg_am) SELECT x FROM pg_class LIMIT 1") == [7]
    assert values(bob, "WITH pg_am AS (SELECT * FROM pg_am LIMIT 1) SELECT count(*) FROM pg_am") == [1]
    counted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT max(i) FROM n, pg_am"
    assert values(bob, counted) == [4]


def test_functions_side_by_side(bob: Session) -> None:
    """ROWS FROM has a clear error."""
    with pytest.raises(UnsupportedError, match="ROWS FROM"):
        ask(bob, "SELECT * FROM pg_am, ROWS FROM (generate_series(1, 2), generate_series(1, 3)) AS r(a, b)")


def test_defects_of_the_translator(bob: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception becomes a clear error, and the log has it."""
    nothing: dict[str, str] = {}
    monkeypatch.setattr(translation, "_output_name", lambda _: nothing["missing"])
    with capture_logs() as logs, pytest.raises(InternalError, match="in another way"):
        ask(bob, "SELECT 1 + 1 FROM pg_am")
    assert "cannot be translated" in str(logs)


def test_planning_can_be_cancelled() -> None:
    """The thread that interrupts the engine sees the cancel of a statement that is still planned."""
    stop, interrupted = CancelToken(), Event()
    planning = Engine.__new__(Engine)
    vars(planning)["_connection"] = SimpleNamespace(interrupt=interrupted.set)
    with stopped_by(stop), planning._interrupted(stopped):
        stop.set()
        assert interrupted.wait(30)


def test_tables_named_like_the_catalog(tmp_path: Path) -> None:
    """A temporary table comes before the catalog; a stored table comes after it, and never instead of it."""
    database = open_database(tmp_path)
    session = database.session()
    session.update("CREATE TEMP TABLE pg_views AS SELECT 7 AS a")
    session.update("CREATE TABLE pg_am AS SELECT 8 AS a")
    session.update("CREATE TABLE t AS SELECT 9 AS a")
    assert ask(session, "SELECT * FROM pg_views").table.to_pylist() == [{"a": 7}]
    assert values(session, "SELECT count(*) FROM pg_catalog.pg_views") != [1]
    assert values(session, "SELECT count(*) FROM t, pg_views") == [1]
    assert "amname" in ask(session, "SELECT * FROM pg_am").table.column_names
    assert values(session, "SELECT a FROM public.pg_am") == [8]
    assert values(session, "WITH pg_am AS (SELECT 5 AS b) SELECT b FROM t, pg_am") == [5]
    with pytest.raises(SqlError, match=r'write "public"\."pg_am"'):
        ask(session, "SELECT count(*) FROM t, pg_am")
    assert values(database.session(), "SELECT count(*) FROM pg_views") != [1]
    database.close()


def test_nothing_outside(bob: Session) -> None:
    """A query reaches no file, no setting and no table of the engine."""
    for sql in (
        "SELECT * FROM pg_class, '/etc/passwd'",
        'SELECT * FROM pg_class, "/etc/passwd"',
        "SELECT * FROM pg_class, duckdb_settings()",
        "SELECT getenv('HOME') FROM pg_class",
        "SELECT * FROM pg_catalog.duckdb_tables",
        "SELECT pg_read_file('/etc/passwd')",
    ):
        with pytest.raises(FlightLLMError):
            ask(bob, sql)
    assert isinstance(ask(bob, "SELECT 1 FROM pg_am LIMIT 1").table, pa.Table)
