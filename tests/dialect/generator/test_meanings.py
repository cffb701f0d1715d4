"""A function that several dialects share has the meaning of the dialect that a text is written in."""

from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask

_ROWS = "(VALUES (1, 3), (2, NULL), (4, 0), (5, 3)) AS v(i, a)"


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


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks"])
@pytest.mark.parametrize(
    ("rest", "rows"),
    [
        (f"FROM {_ROWS} WHERE a > 0 AND i / a > 1", [5]),
        (f"FROM {_ROWS} WHERE a = 0 OR i / a > 1", [4, 5]),
        (f"FROM (SELECT * FROM {_ROWS} WHERE a <> 0) AS t WHERE i / a > 0", [1, 5]),
        (f"FROM {_ROWS} WHERE CASE WHEN a > 0 AND i / a > 1 THEN TRUE END", [5]),
    ],
)
def test_guarded_divisions(session: Session, dialect: str, rest: str, rows: list[int]) -> None:
    """A division gives no error for a row that another condition rules out."""
    assert sorted(row["x"] for row in ask(session, f"SELECT i AS x {rest}", dialect=dialect).rows) == rows


@pytest.mark.parametrize(
    ("dialect", "text", "value"),
    [
        ("bigquery", "FORMAT_DATE('%F', DATE '9999-12-31')", "9999-12-31"),
        ("bigquery", "FORMAT_DATE('%m-%d', DATE '0001-01-01')", "01-01"),
        ("bigquery", "FORMAT_TIME('%T', TIME '12:34:56')", "12:34:56"),
        ("spark", "date_format(DATE '9999-12-31', 'yyyy-MM-dd')", "9999-12-31"),
        ("databricks", "date_format(DATE '0001-01-01', 'yyyy-MM-dd')", "0001-01-01"),
    ],
)
def test_far_dates(session: Session, dialect: str, text: str, value: str) -> None:
    """A date beyond the range of nanoseconds has a text too."""
    assert set(_values(session, dialect, text)) == {value}


def test_text_of_a_time_with_a_zone(session: Session) -> None:
    """The text of a time in a column with a zone is that of the zone that the call asks for."""
    time = "arrow_cast('2024-01-02T03:04:05Z', 'Timestamp(Microsecond, Some(\"Europe/Paris\"))')"
    session.update(f"CREATE OR REPLACE TABLE zoned AS SELECT {time} AS t")
    text = "SELECT FORMAT_TIMESTAMP('%R', t) AS a, FORMAT_TIMESTAMP('%R', t, 'Asia/Tokyo') AS b FROM zoned"
    assert ask(session, text, dialect="bigquery").rows == [{"a": "03:04", "b": "12:04"}]
    assert ask(session, "SELECT date_format(t, 'HH:mm') AS a FROM zoned", dialect="spark").rows == [{"a": "03:04"}]


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


@pytest.mark.parametrize("text", ["LEFT('abc', -1)", "RIGHT('abc', -i)", "REPEAT('a', -i)", "LPAD('a', -5, 'x')"])
def test_negative_lengths_of_bigquery(session: Session, text: str) -> None:
    """A negative length is an error, and SAFE gives NULL in its place."""
    with pytest.raises(FlightLLMError, match="takes a length of 0 or more, and not -"):
        _values(session, "bigquery", text)
    if "PAD" not in text:
        assert _values(session, "bigquery", f"SAFE.{text}")[0] is None


def test_lengths_of_bigquery(session: Session) -> None:
    """Other lengths and patterns have the values of BigQuery; an empty pattern and bytes are errors."""
    text = "[LEFT('abc', 2), RIGHT('abc', i), REPEAT('ab', i), LPAD('a', 3), RPAD('a', i + 2, '-'), REVERSE('ab')]"
    assert _values(session, "bigquery", text)[0] == ["ab", "c", "ab", "  a", "a--", "ba"]
    assert _values(session, "bigquery", "LEFT('abc', a)")[1] is None
    for other in ("LPAD('a', 3, '')", "REVERSE(b'ab')"):
        with pytest.raises(FlightLLMError, match="has no counterpart here: "):
            _values(session, "bigquery", other)


@pytest.mark.parametrize("dialect", ["databricks", "spark"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("array(1, 2)[2]", r"has 2 items, and no item .2.: write get"),
        ("array(1, 2)[-i]", "write get"),
        ("array()[0]", "has 0 items"),
        ("element_at(array(1, 2), 3)", "no item 3 in a list of 2: write try_element_at"),
        ("element_at(array(1, 2), 0)", "write try_element_at"),
    ],
)
def test_missing_items_of_spark(session: Session, dialect: str, text: str, message: str) -> None:
    """A place outside of a list is an error, as in ANSI mode."""
    with pytest.raises(FlightLLMError, match=message):
        _values(session, dialect, text)


@pytest.mark.parametrize("dialect", ["databricks", "spark"])
def test_items_of_spark(session: Session, dialect: str) -> None:
    """Items of lists and values of maps are found; `get` and `try_element_at` give NULL for others."""
    text = "array(array(i, 2)[1], element_at(array(1, 2), -2), get(array(1), 5), try_element_at(array(1), 5))"
    assert _values(session, dialect, text)[0] == [2, 1, None, None]
    text = "array(map('a', 1)['b'], map('a', 1)['a'], CAST(NULL AS ARRAY<INT>)[3])"
    assert _values(session, dialect, text)[0] == [None, 1, None]


def test_exclusive_or_of_snowflake(session: Session) -> None:
    """Snowflake has a function for the bits of which one is 1, and no operator."""
    assert _values(session, "snowflake", "BITXOR(2, 3)")[0] == 1
    with pytest.raises(FlightLLMError, match=r"snowflake has no operator .*: write BITXOR"):
        _values(session, "snowflake", "2 ^ 3")


@pytest.mark.parametrize("dialect", ["databricks", "spark"])
def test_joined_lists_of_spark(session: Session, dialect: str) -> None:
    """A join with a list that is NULL is NULL."""
    assert _values(session, dialect, "CONCAT(CAST(NULL AS ARRAY<INT>), array(9))")[0] is None
    assert _values(session, dialect, "array(1) || CAST(NULL AS ARRAY<INT>) || array(i)")[0] is None
    assert _values(session, dialect, "CONCAT(array(1), array(i), array(2))")[0] == [1, 1, 2]
    assert _values(session, dialect, "CONCAT('a', 'b') || 'c'")[0] == "abc"
