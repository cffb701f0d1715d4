"""Errors tell nobody of what is others': neither the names of objects nor what is in them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.errors import FlightLLMError, InvalidInputError, NotFoundError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database, rows


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with somebody's objects of each kind, and a user who may make and fill tables."""
    database = open_database(tmp_path)
    database.access.store.add_user(User("alice", "user"))
    admin = database.session()
    admin.update("CREATE TABLE theirs_t (id BIGINT, note VARCHAR, v DOUBLE[])")
    admin.update("INSERT INTO theirs_t VALUES (4711, 'secret', [1.0, 2.0])")
    admin.update("CREATE VECTOR INDEX theirs_i ON theirs_t(v)")
    admin.update("CREATE PROMPT theirs_p AS 'What is it?'")
    admin.update("CREATE MODEL theirs_m OPTIONS (engine 'fake')")
    admin.update("GRANT CREATE, INSERT ON SCHEMA public TO alice")
    yield database
    database.close()


@pytest.fixture
def alice(database: Database) -> Session:
    """Return the user's session."""
    return database.session(database.access.store.user("alice").principal)


def _tells_no_other_name(run: Callable[[str], object], sql: str) -> None:
    with pytest.raises(FlightLLMError) as raised:
        run(sql)
    assert "none_" in str(raised.value)
    assert "theirs" not in str(raised.value)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO none_t VALUES (1)",
        "INSERT INTO none_t SELECT 1",
        "UPDATE none_t SET a = 1",
        "DELETE FROM none_t",
        "DROP TABLE none_t",
        "DROP VIEW none_t",
        "DROP PROMPT none_p",
        "DROP VECTOR INDEX none_i",
        "REFRESH VECTOR INDEX none_i",
        "CREATE VECTOR INDEX i ON none_t(a)",
        "CREATE TABLE mine AS SELECT * FROM none_t",
        "CREATE VIEW mine AS SELECT * FROM none_t",
    ],
)
def test_changes_of_what_is_not_there(alice: Session, sql: str) -> None:
    """Somebody who names what is not there learns no other name."""
    _tells_no_other_name(alice.update, sql)


def test_uploads_to_what_is_not_there(alice: Session) -> None:
    """The same for uploads."""
    batch = pa.record_batch({"a": [1]})
    with pytest.raises(NotFoundError, match=r"no table .none_t.: see SHOW TABLES$"):
        alice.ingest("none_t", [batch], batch.schema, "append")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM none_t",
        "SELECT ai_gen('Why?', none_t.a) FROM none_t",
        "SELECT ai_gen('Why?', model => none_m)",
        "SELECT ai_gen(prompt => none_p)",
        "SELECT vector_search('none_i', [1.0, 2.0])",
        "SELECT * FROM vector_search('none_i', [1.0, 2.0])",
    ],
)
def test_queries_of_what_is_not_there(alice: Session, sql: str) -> None:
    """The same for queries."""
    _tells_no_other_name(partial(ask, alice), sql)


@pytest.mark.parametrize("name", ["x" * 81, "é" * 41, "x" * 5000])
def test_an_index_s_name_that_is_too_long(database: Database, name: str) -> None:
    """It is refused in words that name no path; where it is searched, there is none."""
    admin = database.session()
    for statement in (f'CREATE VECTOR INDEX "{name}" ON theirs_t(v)', f'DROP VECTOR INDEX "{name}"'):
        with pytest.raises(InvalidInputError, match=r"must have 1 to 80 bytes in UTF-8$"):
            admin.update(statement)
    with pytest.raises(FlightLLMError, match=r"no vector index .*: see SHOW VECTOR INDEXES$"):
        rows(admin, f"SELECT vector_search('{name}', [1.0, 2.0])")


def test_an_index_s_name_that_is_as_long_as_may_be(database: Database) -> None:
    """Its letters take most room in the name of a folder that are not ASCII."""
    admin, name = database.session(), "é" * 40
    admin.update(f'CREATE VECTOR INDEX "{name}" ON theirs_t(v)')
    assert len(rows(admin, f"SELECT * FROM vector_search('{name}', [1.0, 2.0])")) == 1
    admin.update(f'DROP VECTOR INDEX "{name}"')


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO theirs_t VALUES ('x', 'y', [1.0])",
        "INSERT INTO theirs_t (id) SELECT 'x'",
        "INSERT INTO theirs_t VALUES (1, 2, 3, 4, 5, 6)",
        "INSERT INTO theirs_t (nope) VALUES (1)",
        "INSERT INTO theirs_t SELECT * FROM theirs_t",
        "UPDATE theirs_t SET id = CAST(note AS BIGINT)",
        "DELETE FROM theirs_t WHERE CAST(note AS BIGINT) = 1",
        "CREATE OR REPLACE TABLE theirs_t AS SELECT 1 AS a",
    ],
)
def test_filling_a_table_tells_nothing_of_its_rows(alice: Session, sql: str) -> None:
    """Who may INSERT and not SELECT reads no value of a row in an error; names of columns it may, as in PostgreSQL."""
    with pytest.raises(FlightLLMError) as raised:
        alice.update(sql)
    assert "secret" not in str(raised.value)
    assert "4711" not in str(raised.value)
