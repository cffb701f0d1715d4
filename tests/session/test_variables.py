"""Variables of a session in Snowflake's dialect: SET, UNSET, $x and IDENTIFIER."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import InvalidInputError, SqlError, UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_SNOWFLAKE = {"dialect": "snowflake"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Open a session with a table."""
    database = small_database(tmp_path)
    session = database.session()
    session.update("CREATE TABLE emp AS SELECT * FROM (VALUES (1, 'Ann'), (2, 'Bob')) AS v(id, name)")
    yield session
    database.close()


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ask(session, sql, dialect="snowflake").rows]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5),
        ("-5", -5),
        ("'it''s'", "it's"),
        ("'a\\\\b'", "a\\b"),
        ("(SELECT max(id) FROM emp)", 2),
        ("NULL", None),
        ("TRUE", True),
        ("'2024-01-05'::DATE", date(2024, 1, 5)),
    ],
)
def test_value(session: Session, value: str, expected: object) -> None:
    """A variable keeps the value of an expression, and stands for it in a query."""
    session.update(f"SET x = {value};", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT $X AS a") == [(expected,)]


def test_several(session: Session) -> None:
    """One statement sets several variables; a change of rows and a condition read them."""
    session.update("SET (a, b) = (SELECT 3, 'Cat')", settings=_SNOWFLAKE)
    session.update("INSERT INTO emp VALUES ($a, $b)", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT name, '$a' FROM emp WHERE id = $a") == [("Cat", "$a")]
    assert session.state() is None


def test_identifier(session: Session) -> None:
    """IDENTIFIER names a table or a column by a text or by a variable."""
    session.update("SET (tab, col) = ('emp', 'name')", settings=_SNOWFLAKE)
    assert _rows(session, "SELECT IDENTIFIER($col) AS v FROM IDENTIFIER($tab) ORDER BY 1") == [("Ann",), ("Bob",)]
    assert _rows(session, "SELECT count(*) AS n FROM IDENTIFIER('emp')") == [(2,)]
    with pytest.raises(SqlError, match="write SET other = 'name'"):
        _rows(session, "SELECT * FROM IDENTIFIER($other)")


def test_unset(session: Session) -> None:
    """UNSET forgets a variable, and a new value takes the place of the old one, also for a plan that was made."""
    session.update("SET x = 1", settings=_SNOWFLAKE)
    described = session.describe("SELECT $x AS a", settings=_SNOWFLAKE)
    session.update("SET x = 2", settings=_SNOWFLAKE)
    assert described.plan is not None
    assert session.execute_planned(described.plan, "SELECT $x AS a", _SNOWFLAKE) is None
    session.update("UNSET x", settings=_SNOWFLAKE)
    with pytest.raises(SqlError, match="write SET x = 'text' before"):
        _rows(session, "SELECT $x AS a")
    with pytest.raises(SqlError, match="write SET x = 'text' before"):
        session.update("DELETE FROM emp WHERE id = $x", settings=_SNOWFLAKE)


def test_errors(session: Session) -> None:
    """A variable needs one short value, and the server's own dialect has no variables."""
    with pytest.raises(InvalidInputError, match="write one value for each"):
        session.update("SET x = 1, 2", settings=_SNOWFLAKE)
    with pytest.raises(InvalidInputError, match="at most 256 bytes"):
        session.update("SET x = repeat('a', 300)", settings=_SNOWFLAKE)
    with pytest.raises(SqlError, match="write a value for each variable"):
        session.update("SET (x, y) = 1", settings=_SNOWFLAKE)
    with pytest.raises(UnsupportedError, match="own settings"):
        session.update("SET x = 1")
    assert session.is_update("SET x = 1", settings=_SNOWFLAKE)
