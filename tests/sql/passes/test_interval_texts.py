"""Texts of intervals are read as in PostgreSQL 15."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("interval '02:03:04'", "02:03:04"),
        ("'02:03:04'::interval", "02:03:04"),
        ("interval '-02:03:04'", "-02:03:04"),
        ("'1 day 02:03:04'::interval", "1 day 02:03:04"),
        ("CAST('1 year 2 mons -3 days 04:05:06.7' AS interval)", "1 year 2 mons -3 days +04:05:06.7"),
        ("interval 'P1DT2H'", "1 day 02:00:00"),
        ("interval '1-2'", "1 year 2 mons"),
        ("interval '1 2:03'", "1 day 02:03:00"),
        ("interval '@ 1 day ago'", "-1 days"),
        ("interval '1d 2h 3m 4s'", "1 day 02:03:04"),
        ("'5'::interval", "00:00:05"),
        ("interval '5' day", "5 days"),
        ("(SELECT x::interval FROM (VALUES ('02:03')) v(x))", "02:03:00"),
        ("(SELECT x::interval FROM (VALUES (NULL::text)) v(x))", None),
    ],
)
def test_values(session: Session, value: str, wanted: str | None) -> None:
    """A literal, the cast of one and the cast of another text read the same."""
    assert ask(session, f"SELECT CAST({value} AS text) AS v").rows == [{"v": wanted}]


def test_comparison(session: Session) -> None:
    """A text beside an interval is an interval."""
    sql = "SELECT interval '90 minutes' = '01:30:00' AS a, interval '1 day' > '23:59' AS b"
    assert ask(session, sql).rows == [{"a": True, "b": True}]


def test_wrong_texts(session: Session) -> None:
    """A text of another form is refused."""
    with pytest.raises(SqlError, match=r"has no form of an interval: write one such as '1 day"):
        ask(session, "SELECT CAST(name AS interval) AS v FROM people")
    with pytest.raises(SqlError, match=r"type interval"):
        ask(session, "SELECT interval '1 fortnight' AS v")
