"""Parts of a text that mean something else in their dialect are refused with the text to write."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from flightllm.dialect.transpiling import transpile
from flightllm.errors import UnsupportedError
from tests.databases import ask, small_database
from tests.dialect.functions.snowflake import REFUSED as SNOWFLAKE
from tests.dialect.places import EMPTY


@pytest.mark.parametrize(
    ("dialect", "text", "write"),
    [
        ("duckdb", "typeof(a)", "arrow_typeof"),
        ("duckdb", "row(a, b) IS NULL", "a IS NULL AND b IS NULL"),
        ("duckdb", "(a, b) IS NOT NULL", "a IS NULL AND b IS NULL"),
    ],
)
def test_says_what_to_write(dialect: str, text: str, write: str) -> None:
    """The error of a refused part has the text to write."""
    with pytest.raises(UnsupportedError, match=f"write {write}"):
        transpile(f"SELECT {text} AS x FROM t", dialect, EMPTY)


@pytest.mark.parametrize(
    ("sql", "write"),
    [
        ("SELECT * ILIKE '%a%' FROM t", "write the names of the columns"),
        ("SELECT * FROM t AT (OFFSET => -60)", "write the name of a copy"),
        ("SELECT * FROM t BEFORE (STATEMENT => 'x')", "write the name of a copy"),
        ("SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a + 1 = a", "write WITH RECURSIVE"),
        ("SELECT a FROM t WHERE a > 2 START WITH a = 1 CONNECT BY PRIOR a = b", "write WITH RECURSIVE"),
    ],
)
def test_says_what_to_write_for_statements(sql: str, write: str) -> None:
    """The error of a query of Snowflake without a counterpart has the text to write."""
    with pytest.raises(UnsupportedError, match=write):
        transpile(sql, "snowflake", EMPTY)


@pytest.mark.parametrize(("text", "write"), SNOWFLAKE)
def test_says_what_to_write_for_snowflake(text: str, write: str) -> None:
    """The error of a function of Snowflake without a counterpart has the text to write."""
    with pytest.raises(UnsupportedError, match=re.escape(write)):
        transpile(f"SELECT {text} AS x FROM t", "snowflake", EMPTY)


@pytest.mark.parametrize("dialect", ["duckdb", "snowflake"])
def test_backslashes_stand_for_themselves(dialect: str) -> None:
    """A pattern that is computed has no escape character in these dialects."""
    assert transpile("SELECT a LIKE b AS x FROM t", dialect, EMPTY).text.endswith("a LIKE b ESCAPE '' AS x FROM t")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "snowflake"])
def test_casts_a_typed_literal(dialect: str) -> None:
    """A cast after a literal of a type casts the literal's value."""
    made = transpile("SELECT DATE '2024-01-05'::TIMESTAMP::DATE AS x", dialect, EMPTY).text
    assert made.startswith("SELECT CAST(CAST(CAST('2024-01-05' AS DATE) AS TIMESTAMP) AS DATE)")


def test_casts_a_literal_in_a_cast() -> None:
    """A literal of a type within a cast keeps its type."""
    made = transpile("SELECT CAST(DATE '2024-01-05' AS TIMESTAMP) AS x", "duckdb", EMPTY).text
    assert made == "SELECT CAST(CAST('2024-01-05' AS DATE) AS TIMESTAMP) AS x"


@pytest.mark.parametrize("dialect", ["bigquery", "databricks", "spark"])
def test_length_between_dates(tmp_path: Path, dialect: str) -> None:
    """A date minus a date is a length of time, and a date minus a number stays a date."""
    database = small_database(tmp_path)
    day = "DATE '2024-03-15'"
    sql = f"SELECT {day} - d AS a, {day} - 1 AS b, n - n AS c FROM (SELECT DATE '2024-01-31' AS d, 7 AS n) AS t"
    row = ask(database.session(), sql, dialect=dialect).rows[0]
    assert row == {"a": timedelta(days=44), "b": date(2024, 3, 14), "c": 0}
    database.close()


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("hash(s)", "crc32"),
        ("skewness(n)", "stddev_pop"),
        ("to_json(named_struct('a', 1))", "RESET flightllm.dialect"),
        ("try_to_timestamp(s)", "try_cast"),
        ("json_tuple(s, 'a')", "get_json_object"),
        ("percentile_approx(n, array(0.25, 0.5))", "one call for each"),
    ],
)
def test_lines_of_spark(expression: str, line: str) -> None:
    """A function that Spark has and the server lacks names the line to write."""
    with pytest.raises(UnsupportedError, match=f"here: write .*{line}"):
        transpile(f"SELECT {expression} FROM t", "spark", EMPTY)


def test_ignores_nulls_in_spark() -> None:
    """IGNORE NULLS can follow first and last in a window."""
    written = transpile("SELECT last(a) IGNORE NULLS OVER (ORDER BY b) FROM t", "spark", EMPTY).text
    assert "last_value(a) IGNORE NULLS OVER" in written
