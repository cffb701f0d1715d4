"""Functions of PostgreSQL return PostgreSQL's values, in its dialect and without a dialect."""

from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask

_VALUES = [
    ("to_hex(-1)", "ffffffff"),
    ("to_hex(255::bigint)", "ff"),
    ("to_hex(-1::bigint)", "ffffffffffffffff"),
    ("array_dims(ARRAY[[1,2,3],[4,5,6]])", "[1:2][1:3]"),
    ("'a'::char(3) = 'a '", True),
    ("""'{"a":1.0}'::jsonb = '{"a": 1}'::jsonb""", True),
    ("'[1]'::jsonb <> '[1.00]'::jsonb", False),
    ("div(-7, 2)", -3),
    ("every(1 > 0)", True),
    ("chr(65) || chr(8364)", "A\u20ac"),
    *((f"CAST({zero} AS VARCHAR)", "0") for zero in ("ceil(-0.5)", "round(-0.4)", "trunc(-0.4)", "ceiling(-0.1)")),
    ("CAST(ceil(-0.5::float8) AS VARCHAR)", "-0"),
    ("num_nulls(1, NULL, 2) + 10 * num_nonnulls(1, NULL)", 11),
    (r"quote_literal(E'O\'Reilly')", "'O''Reilly'"),
    (r"quote_literal('a\b')", r"E'a\\b'"),
    ("quote_nullable(NULL)", "NULL"),
    ("array_to_string(array_fill(7, ARRAY[3]) || trim_array(ARRAY[1,2,3], 1), ',')", "7,7,7,1,2"),
    ("array_upper(ARRAY[1,2], 1) - array_lower(ARRAY[1,2], 1)", 1),
    ("width_bucket(3.5, 3.0, 3.5, 5)", 6),
    ("width_bucket(2, 10, 0, 5)", 5),
    ("width_bucket(-1, 0, 10, 4)", 0),
    ("isfinite(date '2001-02-16')", True),
    ("gen_random_uuid() IS NOT NULL AND clock_timestamp() IS NOT NULL", True),
    ("make_interval(days => 3, secs => 1.5)::text", "3 days 00:00:01.5"),
    ("make_interval(1, 1, 0, 2)::text", "1 year 1 mon 2 days"),
    ("justify_days(interval '40 days')::text", "1 mon 10 days"),
    ("justify_hours(interval '30 hours')::text", "1 day 06:00:00"),
    ("justify_hours(interval '1 day -1 hour')::text", "23:00:00"),
    ("justify_interval(interval '1 month -1 hour')::text", "29 days 23:00:00"),
    ("justify_interval(interval '-1 month 31 days 25 hours')::text", "2 days 01:00:00"),
    ("justify_days(NULL::interval) IS NULL", True),
]


@pytest.mark.parametrize("dialect", ["default", "postgres"])
def test_values(session: Session, dialect: str) -> None:
    """Each value is the one that PostgreSQL 17 returns."""
    items = ", ".join(f"{sql} AS c{place}" for place, (sql, _) in enumerate(_VALUES))
    (row,) = ask(session, f"SELECT {items}", dialect=dialect).rows
    found: list[tuple[str, Any]] = [(sql, row[f"c{place}"]) for place, (sql, _) in enumerate(_VALUES)]
    assert found == _VALUES


def test_nth_match(session: Session) -> None:
    """The numbers of `regexp_substr` choose the start, the match and the group."""
    sql = "SELECT regexp_substr('one, two, x2', '[^,]+', 1, 2) AS a, regexp_substr('abAB', '(A)(b)', 2, 1, 'i', 2) AS b"
    assert ask(session, sql, dialect="postgres").rows == [{"a": " two", "b": "B"}]


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("array_fill(7, ARRAY[3, 2])", r"write array_fill\(value, ARRAY\[3\]\)"),
        ("make_interval(fortnights => 1)", "write one of years, months"),
        ("quote_literal(ai_gen('a'))", "compute them in a subquery"),
        ("chr(0)", "write CASE WHEN x > 0 THEN"),
        ("chr(CAST(NULLIF(0, 1) AS int))", "write CASE WHEN x > 0 THEN"),
    ],
)
def test_refused(session: Session, sql: str, advice: str) -> None:
    """A call that has no right value here names the text to write."""
    with pytest.raises(FlightLLMError, match=advice):
        ask(session, f"SELECT {sql} AS r")
