"""A table that there is not has one status and one SQLSTATE, and is not told from one that is nobody's business."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import FlightLLMError
from flightllm.flight.errors import to_status
from flightllm.flight.sqlstates import sqlstate
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database, rows

STATEMENTS = (
    "SELECT * FROM {}",
    "SELECT nothing FROM {}",
    "SELECT ai_gen(b) FROM {}",
    "WITH w AS (SELECT * FROM {}) SELECT * FROM w",
    "SELECT (SELECT max(a) FROM {})",
    "TABLE {}",
    "DESCRIBE {}",
    "SHOW COLUMNS FROM {}",
    "EXPLAIN SELECT * FROM {}",
    "INSERT INTO {} VALUES (1, 'a')",
    "INSERT INTO {} SELECT 1, 'a'",
    "INSERT INTO {} SELECT 1, ai_gen('x')",
    "INSERT INTO mine SELECT * FROM {}",
    "UPDATE {} SET a = 1",
    "DELETE FROM {}",
    "DROP TABLE {}",
    "DROP VIEW {}",
    "CREATE TABLE copied AS SELECT * FROM {}",
    "CREATE VIEW seen AS SELECT * FROM {}",
    "CREATE VECTOR INDEX other ON {} (b)",
)
ANN = Principal("ann", "user")


@contextmanager
def _opened(folder: Path) -> Iterator[Database]:
    """Open a database with a table of an admin's and one of a user's, who may make tables."""
    database = open_database(folder)
    database.access.store.add_user(User("ann", "user"))
    admin = database.session()
    for statement in (
        "GRANT CREATE ON SCHEMA public TO ann",
        "CREATE TABLE hidden (a INT, b VARCHAR, v DOUBLE[])",
        "CREATE VECTOR INDEX hidden_i ON hidden(v)",
    ):
        admin.update(statement)
    database.session(ANN).update("CREATE TABLE mine (a INT, b VARCHAR)")
    yield database
    database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database; see `_opened`."""
    with _opened(tmp_path) as database:
        yield database


@pytest.fixture
def ann(database: Database) -> Session:
    """Return the user's session."""
    return database.session(ANN)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open one database for all statements that fail, and so change nothing."""
    with _opened(tmp_path_factory.mktemp("unchanged")) as database:
        yield database


def failure(session: Session, sql: str) -> tuple[type[Exception], str, str]:
    """Return the status, the SQLSTATE and the text that a statement ends with."""
    run = session.update if session.is_update(sql) else lambda text: list(session.execute(text).batches)
    with pytest.raises(FlightLLMError) as raised:
        run(sql)
    error = raised.value
    return type(to_status(error)), sqlstate(error), str(error)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_one_status(unchanged: Database, sql: str) -> None:
    """Whatever names it answers NOT_FOUND and 42P01, executed or prepared."""
    session = unchanged.session()
    status, state, _ = failure(session, sql.format("nothing_there"))
    assert (status.__name__, state) == ("NotFound", "42P01")
    if "INDEX" not in sql and "CREATE VIEW" not in sql:
        with pytest.raises(FlightLLMError) as raised:
            session.describe(sql.format("nothing_there"))
        assert (type(to_status(raised.value)), sqlstate(raised.value)) == (status, state)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_is_hidden(unchanged: Database, sql: str) -> None:
    """Status, SQLSTATE and text are the same for a table that there is not and for one that is not granted."""
    hidden, absent = (failure(unchanged.session(ANN), sql.format(name)) for name in ("hidden", "absent"))
    assert hidden == (*absent[:2], absent[2].replace("absent", "hidden"))
    assert absent[1] == "42P01"


@pytest.mark.parametrize("sql", ["DROP TABLE IF EXISTS {}", "DROP VIEW IF EXISTS {}"])
def test_drop_if_exists(database: Database, ann: Session, sql: str) -> None:
    """DROP … IF EXISTS of it does nothing."""
    assert ann.update(sql.format("hidden")) == ann.update(sql.format("absent")) == -1
    assert not ann.describe(sql.format("hidden")).parameters
    assert "hidden" in [name.name for name in database.catalog.entries]


def test_drop_of_several(database: Database, ann: Session) -> None:
    """DROP checks the rights to each of several tables first; IF EXISTS leaves hidden tables and their indexes."""
    admin = database.session()
    admin.update("CREATE TABLE shown (a INT)")
    admin.update("GRANT SELECT ON TABLE shown TO ann")

    def known() -> set[str]:
        return {name.name for name in database.catalog.entries}

    for sql, state in (
        ("DROP TABLE mine, shown", "42501"),
        ("DROP TABLE mine, hidden", "42P01"),
        ("DROP TABLE IF EXISTS mine, shown", "42501"),
    ):
        assert failure(ann, sql)[1] == state
        assert known() >= {"mine", "shown", "hidden"}
    ann.update("CREATE TABLE other (v DOUBLE[])")
    ann.update("CREATE VECTOR INDEX other_i ON other(v)")
    for sql in ("DROP TABLE IF EXISTS hidden", "DROP TABLE IF EXISTS absent, other, hidden, mine"):
        assert not ann.describe(sql).parameters
        assert ann.update(sql) == -1
    assert known() == {"shown", "hidden"}
    assert _indexes(admin) == ["hidden_i"]
    admin.update("DROP TABLE shown, hidden")
    assert known() == set()
    assert _indexes(admin) == []


def _indexes(session: Session) -> list[str]:
    return [str(row["name"]) for row in rows(session, "SELECT name FROM system.vector_indexes")]


@pytest.mark.parametrize("sql", ["DROP VECTOR INDEX {}_i", "REFRESH VECTOR INDEX {}_i"])
def test_indexes(unchanged: Database, sql: str) -> None:
    """An index over it is none either."""
    hidden, absent = (failure(unchanged.session(ANN), sql.format(name)) for name in ("hidden", "absent"))
    assert hidden == (*absent[:2], absent[2].replace("absent", "hidden"))


def test_uploads(database: Database, ann: Session) -> None:
    """The same for uploads that append."""
    batch = pa.record_batch({"a": pa.array([1], pa.int32())})
    found = []
    for session, name in ((database.session(), "absent"), (ann, "absent"), (ann, "hidden")):
        with pytest.raises(FlightLLMError) as raised:
            session.ingest(name, [batch], batch.schema, "append")
        found.append((type(to_status(raised.value)), sqlstate(raised.value), str(raised.value).replace(name, "?")))
    assert len(set(found)) == 1
    assert found[0][1] == "42P01"


def test_what_is_granted_in_part(database: Database, ann: Session) -> None:
    """Who may insert, and so knows of the table, is told what right is lacking."""
    database.session().update("GRANT INSERT ON TABLE hidden TO ann")
    status, state, text = failure(ann, "SELECT * FROM hidden")
    assert (status, state) == (flight.FlightUnauthorizedError, "42501")
    assert "has no SELECT" in text
