"""UNLOGGED and the storage parameters of CREATE TABLE have no effect."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import rows


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
