"""TRUNCATE empties all its tables or none, for those who have the right to it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

import adbc_driver_flightsql.dbapi as adbc
import pytest

from flightllm.access.store import User
from flightllm.catalog.entries import StoredRows
from flightllm.config import ServerConfig
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database, rows


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a table, another one whose rows refer to it, one whose rows refer to that, and a view."""
    database = open_database(tmp_path)
    admin = database.session()
    admin.update("CREATE TABLE a (k INT PRIMARY KEY)")
    admin.update("CREATE TABLE b (k INT PRIMARY KEY, a INT REFERENCES a)")
    admin.update("CREATE TABLE c (b INT REFERENCES b, d INT, e INT)")
    admin.update("CREATE TABLE free (k INT)")
    admin.update("CREATE VIEW v AS SELECT k FROM a")
    for table in ("a VALUES (1)", "b VALUES (1, 1)", "c VALUES (1, 1, 1)", "free VALUES (1), (2)"):
        admin.update(f"INSERT INTO {table}")
    database.access.store.add_user(User("ann", "user"))
    yield database
    database.close()


def ann(database: Database, *statements: str) -> Session:
    """Return ann's session after an admin's statements."""
    for statement in statements:
        database.session().update(statement)
    return database.session(User("ann", "user").principal)


def counts(database: Database) -> str:
    """Return the numbers of rows of the four tables."""
    found = (rows(database.session(), f"SELECT count(*) AS n FROM {table}") for table in ("a", "b", "c", "free"))
    return "".join(str(row["n"]) for (row,) in found)


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        ("TRUNCATE free", "1110"),
        ("TRUNCATE TABLE c, free, c RESTART IDENTITY RESTRICT", "1100"),
        ("TRUNCATE a, c, b", "0002"),
        ("TRUNCATE b CASCADE", "1002"),
        ("TRUNCATE a, free CASCADE", "0000"),
    ],
)
def test_rows_are_gone(database: Database, sql: str, after: str) -> None:
    """As in PostgreSQL the statement counts no rows; tables can be filled again, also after a restart."""
    session = database.session()
    assert session.is_update(sql)
    assert session.describe(sql).is_update
    assert counts(database) == "1112"
    assert session.update(sql) == 0
    assert counts(database) == after
    session.update("INSERT INTO free VALUES (3)")
    assert rows(session, "SELECT max(k) AS k FROM free") == [{"k": 3}]
    assert rows(session, "SELECT kind, status FROM system.queries WHERE kind = 'truncate'") == [
        {"kind": "truncate", "status": "done"}
    ]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        (
            "TRUNCATE a",
            InvalidInputError,
            "b has foreign keys to the tables of TRUNCATE: name each of them",
        ),
        ("TRUNCATE a, b", InvalidInputError, "c has foreign keys"),
        ("TRUNCATE free, v", PermissionDeniedError, "'v' is a view and can only be read"),
        ("TRUNCATE free, nothing", NotFoundError, "there is no table 'nothing'"),
        ("TRUNCATE free, system.queries", PermissionDeniedError, "belongs to the server"),
    ],
)
def test_none_is_emptied(database: Database, sql: str, error: type[Exception], message: str) -> None:
    """If one table cannot be emptied, all keep their rows; preparing the statement says so too."""
    session = database.session()
    for call in (session.describe, session.update):
        with pytest.raises(error, match=message):
            call(sql)
    assert counts(database) == "1112"


def test_rights(database: Database) -> None:
    """TRUNCATE needs what a DELETE of all rows needs, for each table, also for those that CASCADE reaches."""
    for sql in ("TRUNCATE free", "TRUNCATE free, a CASCADE"):
        with pytest.raises(NotFoundError):
            ann(database).update(sql)
    session = ann(database, "GRANT SELECT ON free TO ann", "GRANT SELECT, DELETE ON a TO ann")
    with pytest.raises(PermissionDeniedError, match="DELETE"):
        session.update("TRUNCATE free")
    with pytest.raises(InvalidInputError, match="a table has foreign keys"):
        session.update("TRUNCATE a")
    with pytest.raises(PermissionDeniedError, match="would empty a table that you cannot see"):
        session.update("TRUNCATE a CASCADE")
    ann(database, "GRANT SELECT ON b TO ann", "GRANT SELECT, DELETE ON c TO ann")
    with pytest.raises(PermissionDeniedError, match="DELETE"):
        session.update("TRUNCATE a CASCADE")
    assert counts(database) == "1112"
    ann(database, "GRANT DELETE ON b TO ann", "GRANT DELETE ON free TO ann")
    ann(database, "CREATE ROW FILTER ON free TO ann AS k = 1")
    with pytest.raises(PermissionDeniedError, match="only a part"):
        session.update("TRUNCATE free, a CASCADE")
    session.update("TRUNCATE a CASCADE")
    assert counts(database) == "0002"


def test_names_of_a_session(database: Database) -> None:
    """The names are those of the session: its temporary tables come first, then the schemas of its path."""
    session, other = database.session(), database.session()
    for statement in (
        "CREATE SCHEMA s",
        "CREATE TABLE s.free AS SELECT 1 AS k",
        "CREATE TEMP TABLE t AS SELECT 1 AS k",
    ):
        session.update(statement)
    session.update("CREATE TEMP TABLE mine (a INT REFERENCES free (k))")
    session.update("INSERT INTO mine VALUES (1)")
    session.update("USE s")
    session.update("TRUNCATE TABLE ONLY free, t")
    assert counts(database) == "1112"
    assert rows(session, "SELECT count(*) AS n FROM free") == rows(session, "SELECT count(*) AS n FROM t") == [{"n": 0}]
    other.update("TRUNCATE public.free")
    assert rows(session, "SELECT a FROM mine") == [{"a": 1}]


def test_a_key_comes_while_a_table_is_locked(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TRUNCATE that waits for a lock reads the foreign keys once more."""
    store, waits = database.catalog.store, Event()
    (entry,) = (entry for name, entry in store.entries.items() if name.name == "free")
    assert entry.rows is not None
    lock = store.rewriting(entry.rows)

    def rewriting(_: StoredRows) -> Lock:
        waits.set()
        return lock

    with ThreadPoolExecutor(1) as threads:
        with lock, monkeypatch.context() as patch:
            patch.setattr(store, "rewriting", rewriting)
            running = threads.submit(database.session().update, "TRUNCATE free")
            waits.wait()
            database.session().update("CREATE TABLE late (k INT REFERENCES free (k))")
        with pytest.raises(InvalidInputError, match="has foreign keys"):
            running.result()
    assert counts(database) == "1112"


def test_a_running_reader(database: Database) -> None:
    """A query that was planned before goes on with the rows of its moment."""
    session = database.session()
    result = session.execute("SELECT k FROM free ORDER BY k")
    session.update("TRUNCATE free")
    assert sum(batch.num_rows for batch in result.batches) == 2


def test_after_a_restart(tmp_path: Path) -> None:
    """The tables stay empty, and no data file of theirs is left after two more changes."""
    for statements in (("CREATE TABLE t AS SELECT 1 AS k", "TRUNCATE t"), ("CREATE TABLE u (k INT)", "DROP TABLE u")):
        database = open_database(tmp_path)
        for statement in statements:
            database.session().update(statement)
        assert rows(database.session(), "SELECT k FROM t") == []
        database.close()
    assert not list((tmp_path / "tables").glob("**/*.parquet"))


def test_a_damaged_table(tmp_path: Path) -> None:
    """A table with a damaged file is not emptied: a backup can still mend it."""
    database = open_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE t AS SELECT 1 AS k")
    (entry,) = database.catalog.store.entries.values()
    assert entry.rows is not None
    entry.rows.path(0).write_bytes(b"short")
    with pytest.raises(FlightLLMError, match="damaged"):
        session.update("TRUNCATE t")
    database.close()


def test_by_a_client(database: Database) -> None:
    """A client sends it as any other statement, with a plain driver."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE TABLE free")
        cursor.execute("SELECT count(*) FROM free")
        assert cursor.fetchall() == [(0,)]
        with pytest.raises(adbc.Error, match="foreign keys"):
            cursor.execute("TRUNCATE a")
    server.drain(0)
