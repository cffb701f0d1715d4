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
