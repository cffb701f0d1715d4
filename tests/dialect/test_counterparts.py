"""Functions of other dialects return what their own servers do, or the error says what to write instead."""

from datetime import date
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask

ALL = ("snowflake", "bigquery", "databricks", "duckdb", "spark")
ROWS = "(VALUES ('x', 3, 7), (NULL, 5, -7), ('y', NULL, 8), ('xz', 1, NULL)) AS t (a, b, c)"
DUCKDB: list[tuple[str, list[Any]]] = [
    ("SELECT date_diff('day', DATE '2024-01-31', DATE '2024-03-01') AS x", [30]),
    ("SELECT datediff('month', DATE '2024-03-31', DATE '2023-12-01') AS x", [-3]),
    ("SELECT date_diff('quarter', DATE '2023-12-31', DATE '2024-01-01') AS x", [1]),
    ("SELECT date_diff('year', DATE '2023-12-31', DATE '2024-01-01') AS x", [1]),
    ("SELECT date_diff('day', DATE '2024-01-10', DATE '2024-01-01') // 7 AS x", [-1]),
    ("SELECT date_diff('hour', TIMESTAMP '1969-12-31 23:59:00', TIMESTAMP '1970-01-01 00:01:00') AS x", [1]),
    ("SELECT date_diff('minute', TIMESTAMP '2024-01-01 00:59:59', TIMESTAMP '2024-01-01 01:00:00') AS x", [1]),
    ("SELECT date_diff('second', TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 00:00:00') AS x", [86400]),
    ("SELECT date_diff('day', NULL::DATE, DATE '2024-01-01') AS x", [None]),
    ("SELECT split('a,,b,', ',') AS x", [["a", "", "b", ""]]),
    ("SELECT string_split('', ',') AS x", [[""]]),
    ("SELECT str_split('aab', 'aa') AS x", [["", "b"]]),
    ("SELECT split(NULL, ',') AS x", [None]),
    (f"SELECT max_by(a, b) AS x FROM {ROWS}", ["x"]),
    (f"SELECT arg_min(a, b) AS x FROM {ROWS}", ["xz"]),
    (f"SELECT max_by(a, b) AS x FROM {ROWS} WHERE b IS NULL", [None]),
    (f"SELECT b IS NULL AS n, min_by(a, c) AS x FROM {ROWS} GROUP BY ALL ORDER BY n", [False, "x", True, "y"]),
    (f"SELECT c // 2 AS x FROM {ROWS} ORDER BY b", [None, 3, -3, 4]),
    (f"SELECT regexp_matches(a, '^x') AS x FROM {ROWS} ORDER BY b", [True, True, None, False]),
    (f"SELECT a, b FROM {ROWS} ORDER BY ALL", ["x", 3, "xz", 1, "y", None, None, 5]),
    (f"SELECT b, a FROM {ROWS} ORDER BY ALL DESC", [5, None, 3, "x", 1, "xz", None, "y"]),
    (f"SELECT approx_count_distinct(b) AS x FROM {ROWS}", [3]),
    ("SELECT last_day(DATE '2024-02-03') AS x", [date(2024, 2, 29)]),
    ("SELECT last_day(TIMESTAMP '2023-12-31 23:59:00') AS x", [date(2023, 12, 31)]),
]
"""Each was run in DuckDB 2.0 as well, with these values."""
OTHERS: list[tuple[str, str, list[Any]]] = [
    ("snowflake", "SELECT DATEDIFF(day, '2024-01-31', '2024-03-01') AS x", [30]),
    ("snowflake", "SELECT DATEDIFF('month', DATE '2024-01-31', DATE '2024-02-01') AS x", [1]),
    ("bigquery", "SELECT DATE_DIFF(DATE '2024-03-01', DATE '2024-01-31', MONTH) AS x", [2]),
    ("bigquery", "SELECT DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', WEEK(MONDAY)) AS x", [1]),
    ("bigquery", "SELECT DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', ISOWEEK) AS x", [1]),
    ("snowflake", "SELECT DATEDIFF(week, '2024-01-07', '2024-01-08') AS x", [1]),
    ("snowflake", "SELECT DATEDIFF(week, '2024-01-08', '2024-01-14') AS x", [0]),
    *((d, "SELECT DATEDIFF('2024-03-01', '2024-01-31') AS x", [30]) for d in ("spark", "databricks")),
    *((d, "SELECT split('a,b', ',')[1] AS x", ["b"]) for d in ("spark", "databricks", "snowflake")),
    ("spark", "SELECT explode(split('a-b', '-')) AS x", ["a", "b"]),
    ("bigquery", "SELECT SPLIT('a,b') AS x", [["a", "b"]]),
    *((d, f"SELECT MAX_BY(a, b) AS x FROM {ROWS}", [None]) for d in ("snowflake", "spark", "databricks")),
    *(
        (d, f"SELECT APPROX_COUNT_DISTINCT(b) AS x FROM {ROWS}", [3])
        for d in ("snowflake", "bigquery", "databricks", "spark")
    ),
    *(
        (d, f"SELECT a RLIKE '^x' AS x FROM {ROWS} WHERE b < 4 ORDER BY b", [True, True])
        for d in ("spark", "databricks")
    ),
    ("snowflake", f"SELECT a RLIKE 'x' AS x FROM {ROWS} WHERE b < 4 ORDER BY b", [False, True]),
    ("bigquery", "SELECT DIV(-7, 2) AS x, DIV(7, 2) AS y", [-3, 3]),
    *((d, "SELECT 7.5 DIV 2.5 AS x, -7 DIV 2 AS y", [3, -3]) for d in ("spark", "databricks")),
    *((d, "SELECT LAST_DAY(DATE '2023-02-03') AS x", [date(2023, 2, 28)]) for d in ALL),
    ("snowflake", "SELECT LAST_DAY(DATE '2023-02-03', 'quarter') AS x", [date(2023, 3, 31)]),
    ("bigquery", "SELECT LAST_DAY(DATE '2024-01-10', ISOWEEK) AS x", [date(2024, 1, 14)]),
    ("bigquery", "SELECT LAST_DAY(DATE '2024-01-10', YEAR) AS x", [date(2024, 12, 31)]),
    ("databricks", f"SELECT b FROM {ROWS} ORDER BY ALL", [None, 1, 3, 5]),
]


def _values(session: Session, sql: str, dialect: str) -> list[Any]:
    return [value for row in ask(session, sql, dialect=dialect).rows for value in row.values()]


@pytest.mark.parametrize(("sql", "values"), DUCKDB)
def test_duckdb(session: Session, sql: str, values: list[Any]) -> None:
    """A function of DuckDB has DuckDB's values."""
    assert _values(session, sql, "duckdb") == values


@pytest.mark.parametrize(("dialect", "sql", "values"), OTHERS)
def test_others(session: Session, dialect: str, sql: str, values: list[Any]) -> None:
    """A function of another vendor has the values that its reference gives."""
    assert _values(session, sql, dialect) == values


@pytest.mark.parametrize(
    ("dialect", "sql", "said"),
    [
        ("bigquery", "SELECT DATE_DIFF(day, day, CENTURY) FROM people", "write one of DAY, WEEK"),
        ("duckdb", "SELECT date_diff('week', day, day) FROM people", "date_diff('day', a, b) // 7"),
        ("duckdb", "SELECT date_diff('century', day, day) FROM people", "accepts the units DAY"),
        ("bigquery", "SELECT LAST_DAY(day, HOUR) FROM people", "LAST_DAY accepts the units WEEK, ISOWEEK"),
        ("snowflake", "SELECT SPLIT(note, name) FROM people", "must be a text literal"),
        ("snowflake", "SELECT MAX_BY(name, score, 2) FROM people", "MAX_BY of several rows"),
        ("snowflake", "SELECT MIN_BY(name, score) OVER () FROM people", "MIN_BY with OVER"),
        ("spark", "SELECT x FROM people LATERAL VIEW inline(array(1)) e AS x", "inline has no counterpart"),
        ("duckdb", "SELECT * FROM people USING SAMPLE reservoir(10 ROWS)", "write WHERE random() < 0.1"),
    ],
)
def test_refused(session: Session, dialect: str, sql: str, said: str) -> None:
    """What has no counterpart is refused by the name that was written, with what to write instead."""
    with pytest.raises(FlightLLMError) as error:
        ask(session, sql, dialect=dialect)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT ARRAY_AGG(name) FROM people) AS x",
        "SELECT x FROM (SELECT ARRAY_AGG(name) AS x FROM people)",
        "WITH a AS (SELECT ARRAY_AGG(name) AS x FROM people) SELECT * FROM a",
        "WITH a AS (SELECT ARRAY_AGG(name) AS x FROM people), b AS (SELECT x AS y FROM a) SELECT y FROM b",
        "SELECT ['a'] AS x UNION ALL (SELECT ARRAY_AGG(name) FROM people)",
    ],
)
def test_lists_with_nulls(session: Session, sql: str) -> None:
    """A list of the result has no NULL in bigquery, wherever the query computes it."""
    with pytest.raises(FlightLLMError, match="cannot have a NULL element"):
        ask(session, sql, dialect="bigquery")


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT ARRAY_LENGTH(x) AS v FROM (SELECT ARRAY_AGG(name) AS x FROM people)", 9),
        ("SELECT * FROM (SELECT ARRAY_LENGTH(x) AS v FROM (SELECT ARRAY_AGG(name) AS x FROM people))", 9),
        ("SELECT x AS v FROM (SELECT 1 AS x) AS a, (SELECT ARRAY_AGG(name) AS y FROM people) AS b", 1),
        ("SELECT v FROM (SELECT ARRAY_LENGTH(v) AS v FROM (SELECT ARRAY_AGG(name) AS v FROM people))", 9),
        ("SELECT ARRAY_AGG(id ORDER BY id)[OFFSET(0)] AS v FROM people", 1),
        ("SELECT ARRAY_AGG(id ORDER BY id DESC)[ORDINAL(2)] AS v FROM people", 8),
        ("SELECT ARRAY_AGG(STRUCT(id, name) ORDER BY id)[OFFSET(1)].name AS v FROM people", "Bob"),
        ("SELECT ARRAY_AGG(id ORDER BY id)[SAFE_OFFSET(99)] AS v FROM people", None),
    ],
)
def test_lists_inside(session: Session, sql: str, wanted: object) -> None:
    """A list that is no part of the result can have a NULL, and an element of a list is no list."""
    assert ask(session, sql, dialect="bigquery").rows == [{"v": wanted}]
