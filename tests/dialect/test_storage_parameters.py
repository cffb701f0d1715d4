"""UNLOGGED and the storage parameters of CREATE TABLE have no effect."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import rows, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the small tables."""
    database = small_database(Path(tmp_path_factory.mktemp("data")))
    yield database.session()
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE made (a int) WITH (fillfactor=100)",
        "CREATE TABLE made (a int) WITH (fillfactor = 70, autovacuum_enabled = false, toast.autovacuum_enabled = off)",
        "CREATE UNLOGGED TABLE made (a int)",
        "CREATE UNLOGGED TABLE IF NOT EXISTS public.made (a int) WITH (fillfactor=100)",
        "CREATE TABLE made WITH (fillfactor=70) AS SELECT 1 AS a WHERE false",
        "CREATE TABLE made AS WITH q AS (SELECT 1 AS a) SELECT a FROM q WHERE false",
    ],
)
def test_made(session: Session, sql: str) -> None:
    """The table is the same as without them."""
    session.update(sql)
    assert rows(session, "SELECT a FROM made") == []
    session.update("DROP TABLE made")


@pytest.mark.parametrize("parameter", ["foo=1", "fillfactor=70, foo=1"])
def test_unknown(session: Session, parameter: str) -> None:
    """A parameter that PostgreSQL does not have is an error, as in PostgreSQL."""
    with pytest.raises(SqlError, match=r"WITH has no parameter 'foo': leave it out"):
        session.update(f"CREATE TABLE made (a int) WITH ({parameter})")
