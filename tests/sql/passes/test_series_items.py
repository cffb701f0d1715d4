"""`generate_series` in the list of SELECT gives rows."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ("generate_series(1, 3)", [1, 2, 3]),
        ("(generate_series(1, 2) * -5)", [-5, -10]),
        ("generate_series(2, 1)", []),
        ("abs(generate_series(-2, -1))", [2, 1]),
    ],
)
def test_rows(session: Session, item: str, wanted: list[int]) -> None:
    """Each value is a row, also below an operator; an empty series gives no row."""
    assert [row["n"] for row in rows(session, f"SELECT {item} AS n")] == wanted


def test_arguments_are_lists(session: Session) -> None:
    """The argument of a function is a list, and so is the series of a dialect that has lists."""
    assert rows(session, "SELECT array_length(generate_series(1, 3)) AS n") == [{"n": 3}]
    found = ask(session, "SELECT generate_series(1, 3) AS n", **{"flightllm.dialect": "duckdb"})
    assert found.rows == [{"n": [1, 2, 3]}]


def test_aggregates_are_refused(session: Session) -> None:
    """An aggregate takes the rows of FROM alone, as in PostgreSQL."""
    with pytest.raises(UnsupportedError, match=r"at 1:8 has a series: write the series in FROM"):
        rows(session, "SELECT count(generate_series(1, 3)) AS n")


@pytest.mark.parametrize("text", ["SELECT {} AS d", "SELECT d FROM {} AS d", "SELECT d FROM LATERAL {} AS d"])
def test_dates_get_a_zone(session: Session, text: str) -> None:
    """The items of a series of dates are timestamps with a time zone."""
    series = "generate_series(date '2024-01-01', date '2024-01-02', interval '1 day')"
    found = rows(session, f"SELECT d::text AS d FROM ({text.format(series)}) q ORDER BY 1")
    assert [row["d"] for row in found] == ["2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"]
