"""ALTER … RENAME TO gives a table or view another name, and what belongs to it follows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError, PermissionDeniedError, UnsupportedError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import rows, small_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with tables that refer to each other, a view, a view with AI calls, and the user ann."""
    database = small_database(tmp_path)
    admin = database.session()
    for statement in (
        "CREATE TABLE a (k INT PRIMARY KEY, up INT REFERENCES a, v VARCHAR DEFAULT 'new')",
        "INSERT INTO a VALUES (1, 1, 'x'), (2, 1, 'y')",
        "CREATE TABLE b (k INT REFERENCES a)",
        "CREATE TABLE c AS SELECT 7 AS k",
        "CREATE VIEW plain AS SELECT k AS a FROM c",
        "CREATE VIEW asks AS SELECT k, ai_gen('What?', k) AS w FROM c",
        "CREATE SCHEMA s",
    ):
        admin.update(statement)
    database.access.store.add_user(User("ann", "user"))
    yield database
    database.close()


def ann(database: Database, *statements: str) -> Session:
    """Return ann's session after an admin's statements."""
    for statement in statements:
        database.session().update(statement)
    return database.session(User("ann", "user").principal)


def names(database: Database) -> set[str]:
    """Return the names of all tables and views."""
    return {name.display for name in database.catalog.entries}


def test_a_table(database: Database) -> None:
    """Its rows, defaults and keys stay, foreign keys follow, and clients prepare the statement as an update."""
    session, sql = database.session(), "ALTER TABLE a RENAME TO a2"
    assert session.is_update(sql)
    assert session.describe(sql).is_update
    assert "a" in names(database)
    assert session.update(sql) == -1
    assert rows(session, "SELECT k, v FROM a2 ORDER BY k") == [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]
    with pytest.raises(FlightLLMError):
        rows(session, "SELECT k FROM a")
    session.update("INSERT INTO a2 (k) VALUES (3) ON CONFLICT DO NOTHING")
    assert rows(session, "SELECT v FROM a2 WHERE k = 3") == [{"v": "new"}]
    referred = {
        entry.name.name: [key.table.name for key in entry.keys.foreign] for entry in database.catalog.entries.values()
    }
    assert (referred["a2"], referred["b"]) == (["a2"], ["a2"])
    session.update("CREATE TABLE a AS SELECT 9 AS k")
    assert rows(session, "SELECT k FROM a") == [{"k": 9}]


def test_tables_change_places(database: Database) -> None:
    """Three statements swap a table for a new one, as tools do that build tables."""
    session = database.session()
    for sql in (
        "CREATE TABLE a_new AS SELECT 5 AS k",
        "ALTER TABLE a RENAME TO a_old",
        "ALTER TABLE a_new RENAME TO a",
    ):
        session.update(sql)
    session.update("DROP TABLE IF EXISTS a_old")
    assert rows(session, "SELECT k FROM a") == [{"k": 5}]


def test_views(database: Database) -> None:
    """A view keeps its text and columns, with AI calls too; ALTER TABLE can also name a view, as in PostgreSQL."""
    session = database.session()
    for sql in ("ALTER VIEW plain RENAME TO q", "ALTER TABLE q RENAME TO r", "ALTER VIEW asks RENAME TO asked"):
        session.update(sql)
    assert rows(session, "SELECT a FROM r") == [{"a": 7}]
    assert rows(session, "SELECT k, w IS NOT NULL AS there FROM asked") == [{"k": 7, "there": True}]
    session.update("ALTER VIEW r SET SCHEMA s")
    assert rows(session, "SELECT a FROM s.r") == [{"a": 7}]
    session.update("ALTER VIEW asked SET SCHEMA s")
    assert rows(session, "SELECT k, w IS NOT NULL AS there FROM s.asked") == [{"k": 7, "there": True}]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("ALTER TABLE a RENAME TO b", InvalidInputError, "'b' exists"),
        ("ALTER TABLE a RENAME TO a", InvalidInputError, "'a' exists"),
        ("ALTER TABLE c RENAME TO d", InvalidInputError, "views read 'c' by its name: asks, plain; drop them"),
        ("ALTER TABLE missing RENAME TO d", NotFoundError, "there is no table 'missing'"),
        ("ALTER VIEW a RENAME TO d", InvalidInputError, "'a' is a table: write ALTER TABLE"),
        ("ALTER TABLE system.queries RENAME TO d", PermissionDeniedError, "belongs to the server"),
        ("ALTER TABLE a SET SCHEMA system", PermissionDeniedError, "belongs to the server"),
        ("ALTER TABLE a SET SCHEMA nope", NotFoundError, "there is no schema 'nope'"),
    ],
)
def test_refused(database: Database, sql: str, error: type[Exception], message: str) -> None:
    """What cannot be renamed stays as it is, and preparing the statement says why too."""
    session, before = database.session(), names(database)
    for call in (session.describe, session.update):
        with pytest.raises(error, match=message):
            call(sql)
    assert names(database) == before


def test_if_exists(database: Database) -> None:
    """A missing table is then no error."""
    assert database.session().update("ALTER TABLE IF EXISTS missing RENAME TO d") == -1


def test_an_index(database: Database) -> None:
    """A table with a vector index stays, because the index names its table."""
    session = database.session()
    session.update("CREATE VECTOR INDEX i ON a(v)")
    with pytest.raises(InvalidInputError, match="the vector index 'i' is over 'a': drop it"):
        session.update("ALTER TABLE a RENAME TO a2")
    session.update("DROP VECTOR INDEX i")
    session.update("ALTER TABLE a RENAME TO a2")


def test_rights(database: Database) -> None:
    """Only the owner or an admin renames a table, and only into a schema in which that user can create tables."""
    session = ann(database)
    with pytest.raises(NotFoundError):
        session.update("ALTER TABLE a RENAME TO a2")
    assert session.update("ALTER TABLE IF EXISTS a RENAME TO a2") == -1
    ann(database, "GRANT SELECT, DELETE ON a TO ann")
    with pytest.raises(PermissionDeniedError, match="only be changed by its owner"):
        session.update("ALTER TABLE a RENAME TO a2")
    ann(database, "GRANT CREATE ON SCHEMA public TO ann").update("CREATE TABLE mine AS SELECT 1 AS k")
    with pytest.raises(PermissionDeniedError, match="CREATE"):
        session.update("ALTER TABLE mine SET SCHEMA s")
    session.update("ALTER TABLE mine RENAME TO ours")
    session.update("DROP TABLE ours")
    assert "a" in names(database)


def test_grants_follow(database: Database) -> None:
    """Grants go to the new name, and a new table of the old name has none of them."""
    session = ann(database, "GRANT SELECT ON a TO ann", "ALTER TABLE a RENAME TO a2", "CREATE TABLE a AS SELECT 1 AS k")
    assert len(rows(session, "SELECT k FROM a2")) == 2
    with pytest.raises(FlightLLMError):
        rows(session, "SELECT k FROM a")


def test_filters_follow_and_stay(database: Database) -> None:
    """Row filters and masks hold under the new name, and for a later table of the old name: nobody escapes them."""
    session = ann(
        database, "GRANT SELECT ON a TO ann", "CREATE ROW FILTER ON a TO ann AS k = 1", "ALTER TABLE a RENAME TO a2"
    )
    assert rows(session, "SELECT k FROM a2") == [{"k": 1}]
    ann(database, "CREATE TABLE a AS SELECT 2 AS k", "GRANT SELECT ON a TO ann")
    assert rows(session, "SELECT k FROM a") == []
    ann(database, "DROP TABLE a2", "CREATE OR REPLACE ROW FILTER ON a TO ann AS k = 2")
    with pytest.raises(InvalidInputError, match="of an earlier table 'a2' differ from those of 'a'"):
        database.session().update("ALTER TABLE a RENAME TO a2")
    assert rows(session, "SELECT k FROM a") == [{"k": 2}]
    ann(database, "CREATE ROW FILTER ON b TO ann AS k IN (SELECT k FROM a)")
    with pytest.raises(InvalidInputError, match="reads 'a' by its name"):
        database.session().update("ALTER TABLE a RENAME TO a3")


def test_names_of_a_session(database: Database) -> None:
    """The old name is looked up as the session does; a temporary table stays temporary."""
    session, other = database.session(), database.session()
    for sql in ("CREATE TEMP TABLE t AS SELECT 1 AS k", "ALTER TABLE t RENAME TO t2", "USE s"):
        session.update(sql)
    assert rows(session, "SELECT k FROM t2") == [{"k": 1}]
    with pytest.raises(FlightLLMError):
        rows(other, "SELECT k FROM t2")
    with pytest.raises(UnsupportedError, match="a temporary table stays in its session"):
        session.update("ALTER TABLE t2 SET SCHEMA s")
    session.update("CREATE TABLE inner_one AS SELECT 3 AS k")
    session.update("ALTER TABLE IF EXISTS inner_one RENAME TO inner_two")
    assert rows(other, "SELECT k FROM s.inner_two") == [{"k": 3}]
    session.update("ALTER TABLE inner_two SET SCHEMA public")
    assert rows(other, "SELECT k FROM inner_two") == [{"k": 3}]


def test_running_readers_and_restarts(tmp_path: Path) -> None:
    """A query that was planned before reads on; after a restart the table has only its new name, and its rows."""
    database = small_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE a AS SELECT 1 AS k")
    result = session.execute("SELECT k FROM a")
    session.update("ALTER TABLE a RENAME TO b")
    assert sum(batch.num_rows for batch in result.batches) == 1
    database.close()
    database = small_database(tmp_path)
    assert rows(database.session(), "SELECT k FROM b") == [{"k": 1}]
    assert "a" not in names(database)
    database.close()
