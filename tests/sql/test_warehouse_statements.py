"""Snowflake's statements about warehouses, roles and sessions do nothing, or are errors where a value would matter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import open_database, rows


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a database."""
    folder: Path = tmp_path_factory.mktemp("warehouses")
    database = open_database(folder)
    yield database.session()
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "USE WAREHOUSE compute_wh",
        'use role "ANALYST"',
        "USE SECONDARY ROLES ALL",
        "ALTER SESSION SET TIMEZONE = 'UTC'",
        "ALTER SESSION SET QUERY_TAG = 'x' USE_CACHED_RESULT = FALSE",
        "ALTER SESSION UNSET QUERY_TAG",
    ],
)
def test_accepted(session: Session, sql: str) -> None:
    """The statement changes nothing: unqualified names mean the same after it."""
    before = rows(session, "SELECT current_schema() AS s")
    session.update(sql)
    assert rows(session, "SELECT current_schema() AS s") == before


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER SESSION SET TIMEZONE = 'Europe/Oslo'", "SET timezone has no effect here: leave it out"),
        ("ALTER SESSION SET QUERY_TAG = 'x', WEEK_START = 7", "SET week_start has no effect here: leave it out"),
        ("ALTER SESSION SET QUERY_TAG", "ALTER SESSION has no effect here: leave it out"),
        ("USE WAREHOUSE a b", "was not expected"),
    ],
)
def test_refused(session: Session, sql: str, message: str) -> None:
    """A value that would change rows is an error."""
    with pytest.raises(FlightLLMError, match=message):
        session.update(sql)
