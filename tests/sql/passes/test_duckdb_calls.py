"""Functions of DuckDB give its values, which the tests have from DuckDB 2.0."""

from datetime import date, datetime

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("typeof(CAST(1 AS BIGINT))", "BIGINT"),
        ("typeof(CAST(1 AS DECIMAL(10, 2)))", "DECIMAL(10,2)"),
        ("typeof(NULL)", '"NULL"'),
        ("typeof({'a': 'b'})", "STRUCT(a VARCHAR)"),
        ("typeof(now())", "TIMESTAMP WITH TIME ZONE"),
        ("dayname(DATE '2024-02-04')", "Sunday"),
        ("dayname(CAST(NULL AS DATE))", None),
        ("monthname(TIMESTAMP '2024-02-04 01:02:03')", "February"),
        ("dayofweek(DATE '2024-02-04')", 0),
        ("isodow(DATE '2024-02-04')", 7),
        ("week(DATE '2024-02-04')", 5),
        ("weekofyear(DATE '2021-01-03')", 53),
        ("epoch(TIMESTAMP '2024-01-01 00:00:01')", 1704067201),
        ("last_day(DATE '2024-02-03')", date(2024, 2, 29)),
        ("last_day(TIMESTAMP '2023-12-31 05:00:00')", date(2023, 12, 31)),
        ("date_add(DATE '2024-01-31', INTERVAL '1 month')", datetime(2024, 2, 29)),  # noqa: DTZ001 - no zone
        ("len('abc')", 3),
        ("len([1, 2])", 2),
        ("len([[1, 2], [3]])", 2),
        ("len([[]])", 1),
        ("len([])", 0),
        ("regexp_matches('abc', 'b')", True),
        ("regexp_matches(NULL, 'b')", None),
        ("regexp_extract_all('a1b22', '[0-9]+')", ["1", "22"]),
        ("regexp_extract_all('a1b22', '([a-z])([0-9]+)', 1)", ["a", "b"]),
        ("string_split('a,,b', ',')", ["a", "", "b"]),
        ("str_split('', ',')", [""]),
        ("string_split_regex('a1b22', '[0-9]+')", ["a", "b", ""]),
        ("jaro_winkler_similarity('a', NULL)", None),
        ("damerau_levenshtein('ab', 'ba')", 1),
        ("hamming('abc', 'abd')", 1),
        ("CAST(age(DATE '2024-03-01', DATE '2023-01-31') AS VARCHAR)", "1 year 1 mon 1 day"),
        ("base64('ab')", "YWI="),
        ("from_base64('YWI=')", b"ab"),
        ("prefix('abc', 'ab')", True),
        ("suffix('abc', 'ab')", False),
        ("list_aggregate([1, 2, NULL], 'count')", 2),
        ("list_aggregate([1, 2, NULL], 'sum')", 3),
        ("list_aggr([1, 2, NULL], 'avg')", 1.5),
        ("list_aggregate([9007199254740993, 0], 'sum')", 9007199254740993),
        ("list_aggregate(['b', 'a', NULL, 'b'], 'histogram')", [("a", 1), ("b", 2)]),
        ("list_aggregate(CAST([NULL] AS INT[]), 'histogram')", None),
        ("struct_extract({'a': 1}, 'a')", 1),
        ("struct_pack(a := 1, \"B c\" := 'x')", {"a": 1, "B c": "x"}),
        ("list_sum([9223372036854775807, 1, NULL])", 9223372036854775808),
        ("list_sum(CAST([9223372036854775807, -9223372036854775808] AS BIGINT[]))", -1),
        ("list_sum([1.5, 2.25])", 3.75),
        ("list_sum(list_transform([1, 2], x -> x + 1))", 5),
        ("list_sum(CAST(NULL AS BIGINT[]))", None),
        ("list_sum(CAST([] AS BIGINT[]))", None),
        ("array_sum(CAST([0.1, 0.2] AS DOUBLE[]))", 0.30000000000000004),
        ("typeof(list_sum([1, 2]))", "BIGINT"),
        ("time_bucket(INTERVAL '1 mon', DATE '2024-03-15')", date(2024, 3, 1)),
        ("time_bucket(INTERVAL '12 mons', DATE '2024-03-15')", date(2024, 1, 1)),
        ("time_bucket(INTERVAL '1 yr', DATE '2024-03-15')", date(2024, 1, 1)),
        ("time_bucket(INTERVAL 2 months, DATE '1999-06-15')", date(1999, 5, 1)),
        ("time_bucket(INTERVAL '7 days', DATE '2024-03-15')", date(2024, 3, 11)),
        ("time_bucket(INTERVAL '1 month', DATE '2024-03-15', DATE '2000-01-10')", date(2024, 3, 1)),
        (
            "time_bucket(INTERVAL '2 months', DATE '2024-03-15', TIMESTAMP '2001-02-10 05:00:00')",
            datetime(2024, 2, 1),  # noqa: DTZ001 - no zone
        ),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Each expression has DuckDB's value."""
    assert rows(session, f"SELECT {expression} AS x") == [{"x": value}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("first(x)", None),
        ("last(x)", 4),
        ("first(x ORDER BY x DESC NULLS LAST)", 4),
        ("last(x ORDER BY x DESC NULLS LAST) FILTER (WHERE x > 1)", 2),
        ("variance(x)", 7 / 3),
        ("variance(x) FILTER (WHERE x = 1)", None),
        ("approx_quantile(x, 0.5)", 2),
    ],
)
def test_aggregates(session: Session, expression: str, value: object) -> None:
    """Aggregates keep their ORDER BY and FILTER, and have DuckDB's value."""
    found = rows(session, f"SELECT {expression} AS x FROM (VALUES (NULL), (1), (2), (4)) v(x)")
    assert found == [{"x": pytest.approx(value)}]


def test_the_length_of_empty_lists(session: Session) -> None:
    """An empty list has the length 0, also beside PostgreSQL's array_length, which has none for it."""
    sql = "SELECT len([]) AS n, len(CAST(NULL AS INT[])) AS none, array_length([]) AS pg"
    assert rows(session, sql) == [{"n": 0, "none": None, "pg": None}]


def test_inexact_sum(session: Session) -> None:
    """A sum of whole numbers that a double cannot hold is an error, where the type of the list is not known."""
    with pytest.raises(FlightLLMError, match="is 9007199254740993"):
        rows(session, "SELECT list_sum(list_transform([9007199254740992], x -> x + 1)) AS r")
    assert rows(session, "SELECT list_sum(l) AS r FROM (SELECT array_agg(x) AS l FROM (VALUES (1), (2)) v(x)) q") == [
        {"r": 3}
    ]


@pytest.mark.parametrize("width", ["1 month 1 day", "1 quarter"])
def test_widths_of_buckets(session: Session, width: str) -> None:
    """A width that is not months alone, or days and smaller units, says what to write."""
    with pytest.raises(FlightLLMError, match="write time_bucket"):
        rows(session, f"SELECT time_bucket(INTERVAL '{width}', DATE '2024-03-15') AS x")


@pytest.mark.parametrize("given", ["", "INTERVAL '1 day'", "INTERVAL '1 day', DATE '2024-03-15', DATE '2024-03-15', 1"])
def test_arguments_of_buckets(session: Session, given: str) -> None:
    """A call with too few or too many values says what to write."""
    with pytest.raises(FlightLLMError, match="write time_bucket"):
        rows(session, f"SELECT time_bucket({given}) AS x")


def test_names(session: Session) -> None:
    """A column has the name of the sent text, and a column of the same name as a function stays a column."""
    assert ask(session, "SELECT dayname(day), first(id) FROM people GROUP BY day").table.column_names == [
        "dayname(day)",
        "first(id)",
    ]
    assert rows(session, "SELECT week, v.first FROM (VALUES (1, 2)) v(week, first)") == [{"week": 1, "first": 2}]


def test_other_dialect(session: Session) -> None:
    """A dialect in which such a name can have another meaning is not read as DuckDB's: Spark counts Sunday as 1."""
    session.update("SET flightllm.dialect = 'spark'")
    try:
        assert rows(session, "SELECT dayofweek(DATE '2024-02-04') AS x") == [{"x": 1}]
    finally:
        session.update("RESET flightllm.dialect")
