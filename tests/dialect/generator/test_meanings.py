"""A function that several dialects share has the meaning of the dialect that a text is written in."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database

_ROWS = "(VALUES (1, 3), (2, NULL), (4, 0), (5, 3)) AS v(i, a)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of a small database."""
    database = small_database(tmp_path_factory.mktemp("meanings"))
    yield database.session()
    database.close()


def _values(session: Session, dialect: str, text: str) -> list[Any]:
    return [row["x"] for row in ask(session, f"SELECT {text} AS x FROM {_ROWS}", dialect=dialect).rows]


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks"])
@pytest.mark.parametrize("text", ["i / a", "1 / 0", "CAST(i AS DOUBLE PRECISION) / a", "1.5 / (a - 3)"])
def test_division_by_zero(session: Session, dialect: str, text: str) -> None:
    """A division by zero is an error, also of doubles."""
    if dialect == "bigquery":
        text = text.replace("DOUBLE PRECISION", "FLOAT64")
    with pytest.raises(FlightLLMError, match="division by zero: write nullif"):
        _values(session, dialect, text.replace("DOUBLE PRECISION", "DOUBLE"))


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks"])
def test_divisions_without_zero(session: Session, dialect: str) -> None:
    """Rows without a zero are divided, and `nullif` and CASE keep a zero away."""
    assert _values(session, dialect, "i / nullif(a, 0)") == [1 / 3, None, None, 5 / 3]
    assert _values(session, dialect, "CASE WHEN a > 0 THEN i / a END") == [1 / 3, None, None, 5 / 3]
    assert _values(session, dialect, "sum(a) / count(*)") == [1.5]


def test_other_divisions_by_zero(session: Session) -> None:
    """Spark returns NULL for a division by zero, and DuckDB infinity."""
    assert _values(session, "spark", "i / a") == [1 / 3, None, None, 5 / 3]
    assert _values(session, "duckdb", "i / a") == [1 / 3, None, float("inf"), 5 / 3]


@pytest.mark.parametrize("dialect", ["snowflake", "databricks", "spark"])
def test_distinct_lists_with_a_filter(session: Session, dialect: str) -> None:
    """A list of distinct values without NULLs takes a FILTER."""
    assert _values(session, dialect, "ARRAY_AGG(DISTINCT a) FILTER (WHERE i < 3)") == [[3]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TRIM('\u00a0 a\t\n')", "a"),
        ("LTRIM('\t a ')", "a "),
        ("RTRIM(' a\u3000')", " a"),
        ("TRIM('xax', 'x')", "a"),
        ("CHR(0)", ""),
        ("CHR(97)", "a"),
    ],
)
def test_texts_of_bigquery(session: Session, text: str, value: str) -> None:
    """TRIM removes all white space, and CHR of 0 is an empty text."""
    assert _values(session, "bigquery", text)[0] == value


@pytest.mark.parametrize("dialect", ["databricks", "spark"])
def test_dates_of_spark(session: Session, dialect: str) -> None:
    """DATE of a year, a month and a day is not a function of Spark."""
    with pytest.raises(FlightLLMError, match=f"DATE of {dialect} has no counterpart here: write it with 1 arg"):
        _values(session, dialect, "DATE(2024, 1, 2)")
