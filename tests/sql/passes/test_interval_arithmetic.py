"""Sums of dates and intervals, and products of intervals, have PostgreSQL's values."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with days and intervals."""
    session.update(
        "CREATE TABLE d AS SELECT 1 AS n, date '2024-01-31' AS day, interval '1 month 2 days' AS i UNION ALL"
        " SELECT 2, NULL, NULL"
    )
    return session


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("date '2024-01-31' + interval '36 hours'", "2024-02-01 12:00:00"),
        ("interval '1 hour' + date '2024-01-31'", "2024-01-31 01:00:00"),
        ("date '2024-03-31' - interval '1 month'", "2024-02-29 00:00:00"),
        ("(SELECT day + i FROM d WHERE n = 1)", "2024-03-02 00:00:00"),
        ("- interval '1 month 2 days'", "-1 mons -2 days"),
        ("interval '1 month' * 1.5", "1 mon 15 days"),
        ("3 * interval '2 hours'", "06:00:00"),
        ("interval '1 year' / 5", "2 mons 12 days"),
        ("(SELECT i * n FROM d WHERE n = 1)", "1 mon 2 days"),
        ("interval '1 day' * NULL", None),
    ],
)
def test_values(session: Session, sql: str, wanted: str | None) -> None:
    """Each value is that of PostgreSQL."""
    assert rows(session, f"SELECT CAST({sql} AS text) AS found") == [{"found": wanted}]


def test_changes(session: Session) -> None:
    """Statements that change rows compute in the same way."""
    session.update("CREATE OR REPLACE TABLE c AS SELECT n, day, i FROM d")
    session.update("UPDATE c SET i = i * 2 WHERE day + interval '1 hour' > timestamp '2024-01-31 00:30:00'")
    session.update("DELETE FROM c WHERE n * interval '1 day' = interval '2 days'")
    found = rows(session, "SELECT n, CAST(i AS text) AS i FROM c")
    assert found == [{"n": 1, "i": "2 mons 4 days"}]


def test_division_by_zero(session: Session) -> None:
    """A division by zero is an error, as in PostgreSQL."""
    with pytest.raises(FlightLLMError, match="divided by zero"):
        ask(session, "SELECT i / (n - 1) FROM d")
