"""Differences of times count boundaries, as in DuckDB 2.0; its weeks are seven days."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("date_diff('month', DATE '2024-01-31', DATE '2024-02-01')", 1),
        ("date_diff('quarter', DATE '2024-03-31', DATE '2024-04-01')", 1),
        ("date_diff('year', DATE '2024-12-31', DATE '2023-01-01')", -1),
        ("date_diff('week', DATE '2024-02-03', DATE '2024-02-05')", 0),
        ("date_diff('week', DATE '2024-02-05', DATE '2024-01-20')", -2),
        ("date_diff('day', TIMESTAMP '2024-01-31 23:00:00', TIMESTAMP '2024-02-01 01:00:00')", 1),
        ("date_diff('hour', TIMESTAMP '2024-01-31 01:59:00', TIMESTAMP '2024-01-31 02:00:00')", 1),
        ("date_diff('second', TIMESTAMP '2024-01-31 01:59:00.9', TIMESTAMP '2024-01-31 01:59:01.1')", 1),
        ("date_diff('days', DATE '2024-02-05', DATE '2024-01-20')", -16),
        ("datediff('day', DATE '2024-03-01', DATE '2024-02-01')", -29),
        ("datediff(day, DATE '2024-02-01', DATE '2024-03-01')", 29),
        ("datediff(DATE '2024-03-01', DATE '2024-02-01')", 29),
        ("date_diff('day', CAST(NULL AS DATE), DATE '2024-02-01')", None),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Each difference has DuckDB's value, and `datediff` of two dates MySQL's."""
    assert rows(session, f"SELECT {expression} AS x") == [{"x": value}]


def test_unknown_unit(session: Session) -> None:
    """An unknown unit names the known ones."""
    with pytest.raises(UnsupportedError, match="accepts the units year, quarter"):
        rows(session, "SELECT date_diff('decade', DATE '2024-02-05', DATE '2024-01-20') AS x")


def test_model_calls(session: Session) -> None:
    """A model is not asked twice for one time."""
    with pytest.raises(UnsupportedError, match="in a subquery"):
        rows(session, "SELECT date_diff('month', CAST(ai_gen('A day?', note) AS DATE), day) AS x FROM people")
