"""Parts of times and intervals are PostgreSQL's."""

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows

_LATER = "timestamp '2024-03-12 14:30:01.25'"
_BETWEEN = f"{_LATER} - timestamp '2024-03-10 12:00'"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"extract(second FROM {_LATER})", 1.25),
        (f"date_part('msecs', {_LATER})", 1250),
        (f"extract(epoch FROM {_BETWEEN})", 181801.25),
        (f"extract(day FROM {_BETWEEN})", 2),
        (f"extract(hour FROM {_BETWEEN})", 2),
        (f"extract(minute FROM {_BETWEEN})", 30),
        (f"extract(second FROM {_BETWEEN})", 1.25),
        (f"extract(hour FROM timestamp '2024-03-10 12:00' - {_LATER})", -2),
        (f"extract(month FROM {_BETWEEN})", 0),
        (f"extract(epoch FROM max({_BETWEEN}))", 181801.25),
        ("extract(epoch FROM interval '1 year 1 month')", 31557600 + 30 * 86400),
        ("extract(second FROM interval '61.5 seconds')", 1.5),
        ("extract(microsecond FROM CAST('26.3434 seconds' AS INTERVAL))", 26343400),
        ("extract(century FROM date '2000-12-31')", 20),
        ("extract(century FROM date '2001-01-01')", 21),
        (f"(SELECT extract(century FROM max(t)) FROM (VALUES ({_LATER})) v(t))", 21),
        (f"date_part('decade', {_LATER})", 202),
        (f"extract(millennium FROM {_LATER})", 3),
        (f"extract(century FROM {_BETWEEN})", 0),
        ("extract(second FROM NULL::timestamp - now()::timestamp)", None),
    ],
)
def test_values(session: Session, sql: str, wanted: float | None) -> None:
    """Seconds have a fraction, and the time between two timestamps has days and a time."""
    assert rows(session, f"SELECT {sql} AS r") == [{"r": wanted}]


def test_beside_ai_calls(session: Session) -> None:
    """A part works in the condition of a query with an AI call."""
    sql = "SELECT id FROM people WHERE extract(epoch FROM now() - now()) = 0 AND ai_filter('keep', name) IS NOT NULL"
    assert len(rows(session, f"{sql} AND id < 3")) == 2


def test_whole_seconds_of_other_dialects(session: Session) -> None:
    """`second(t)` is a whole number, as in the dialects that have it."""
    assert rows(session, f"SELECT second({_LATER}) AS r") == [{"r": 1}]
    assert ask(session, f"SELECT second({_LATER}) AS r", **{"flightllm.dialect": "duckdb"}).rows == [{"r": 1}]


@pytest.mark.parametrize(
    "sql", ["SELECT extract(year FROM date '2024-01-01')", "SELECT extract(hour FROM timestamp '2024-01-01 05:00')"]
)
def test_other_texts_stay(sql: str) -> None:
    """A part that is the same in both stays."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
