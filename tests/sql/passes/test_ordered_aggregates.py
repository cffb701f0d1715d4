"""`mode` and `percentile_disc` have PostgreSQL's values."""

from datetime import date
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import passed
from tests.databases import ask, rows

VALUES = (
    "(VALUES ('a', 1, 'x', 1.5, date '2024-01-02'), ('a', 2, 'y', 1.5, NULL), ('a', 2, 'y', 0.5, NULL),"
    " ('b', NULL, NULL, NULL, NULL), ('c', 4, 'x', 2.5, date '2024-01-01'), ('c', 3, 'z', 2.5, NULL))"
    " v(g, i, t, d, day)"
)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY i)", 2),
        ("percentile_disc(0.2) WITHIN GROUP (ORDER BY i DESC)", 4),
        ("percentile_disc(0.21) WITHIN GROUP (ORDER BY i DESC)", 3),
        ("percentile_disc(0) WITHIN GROUP (ORDER BY t)", "x"),
        ("percentile_disc(1) WITHIN GROUP (ORDER BY t NULLS FIRST)", "z"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY day)", date(2024, 1, 1)),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FILTER (WHERE t = 'x' OR g = 'c')", 3),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FILTER (WHERE false)", None),
        ("percentile_disc(ARRAY[0.2, 1]) WITHIN GROUP (ORDER BY i)", [1, 4]),
        ("percentile_disc((0.5)) WITHIN GROUP (ORDER BY i + 1)", 3),
        ("percentile_cont(ARRAY[0, 0.5]) WITHIN GROUP (ORDER BY i)", [1.0, 2.0]),
        ("percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY i) FILTER (WHERE g = 'b')", None),
        ("percentile_cont(0.25) WITHIN GROUP (ORDER BY i DESC)", 3.0),
        ("quantile_disc(i, 0.5)", 2),
        ("mode() WITHIN GROUP (ORDER BY i)", 2),
        ("mode() WITHIN GROUP (ORDER BY d)", 1.5),
        ("mode() WITHIN GROUP (ORDER BY d DESC)", 2.5),
        ("mode() WITHIN GROUP (ORDER BY i > 2)", False),
        ("mode(t)", "x"),
        ("mode() WITHIN GROUP (ORDER BY t) FILTER (WHERE g = 'b')", None),
        ("mode() WITHIN GROUP (ORDER BY day) FILTER (WHERE i < 4)", date(2024, 1, 2)),
    ],
)
def test_values(session: Session, sql: str, value: Any) -> None:
    """NULLs do not count, a group without values gives NULL, and the result has the type of the values."""
    assert rows(session, f"SELECT {sql} AS found FROM {VALUES}") == [{"found": value}]


def test_groups(session: Session) -> None:
    """The aggregates stand in SELECT, HAVING and ORDER BY, beside others."""
    sql = (
        "SELECT g, mode() WITHIN GROUP (ORDER BY i) AS m, percentile_disc(0.5) WITHIN GROUP (ORDER BY d) AS p,"
        f" count(*) AS n FROM {VALUES} GROUP BY g HAVING coalesce(mode(i), 0) < 4"
        " ORDER BY percentile_disc(1) WITHIN GROUP (ORDER BY i)"
    )
    assert rows(session, sql) == [
        {"g": "a", "m": 2, "p": 1.5, "n": 3},
        {"g": "c", "m": 3, "p": 2.5, "n": 2},
        {"g": "b", "m": None, "p": None, "n": 1},
    ]


def test_answers_of_a_model(session: Session) -> None:
    """An AI call in the aggregate is asked once for each row, as it is without the aggregate."""
    plain = ask(session, "SELECT ai_gen('Say', id) AS a FROM people", cache="off")
    assert plain.calls > 1
    assert (
        ask(session, "SELECT mode() WITHIN GROUP (ORDER BY ai_gen('Say', id)) FROM people", cache="off").calls
        == plain.calls
    )
    again = ask(
        session, "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY ai_gen('Say', id)) FROM people", cache="off"
    )
    assert again.calls == plain.calls


def test_a_view_and_a_parameter(session: Session) -> None:
    """A view keeps the aggregate, and other texts with these words stay as they are."""
    session.update(f"CREATE VIEW modes AS SELECT g, mode(t) AS m FROM {VALUES} GROUP BY g")
    assert rows(session, "SELECT m FROM modes WHERE g = 'a'") == [{"m": "y"}]
    for same in ("SELECT mode FROM t", "SELECT s.mode(1), percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t"):
        assert passed(ParsedText(same), lambda _: {}).sql == same


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("percentile_disc(1.5) WITHIN GROUP (ORDER BY i)", "the fraction 1.5 at 1:24 is not between 0 and 1"),
        ("percentile_disc(-0.5) WITHIN GROUP (ORDER BY i)", "is not between 0 and 1"),
        ("percentile_disc(ARRAY[0.5, 2]) WITHIN GROUP (ORDER BY i)", "the fraction 2 at 1:35 is not between 0 and 1"),
        ("percentile_disc(i) WITHIN GROUP (ORDER BY i)", "the fraction i at 1:24 is not a literal"),
        ("percentile_disc(?) WITHIN GROUP (ORDER BY i)", "is not a literal"),
        ("percentile_disc(0.5)", "at 1:8 has other arguments: write percentile_disc"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY i, t)", "has other arguments"),
        ("mode()", "has other arguments: write mode"),
        ("mode(DISTINCT i)", "has other arguments"),
        ("mode(i) OVER ()", "cannot be a window function"),
        ("mode(interval '1 day')", "mode at 1:8 takes no intervals"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY day)", "percentile_cont"),
        ("percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY t)", "percentile_cont"),
    ],
)
def test_errors(session: Session, sql: str, message: str) -> None:
    """What has no value is refused before it runs, with its place and what to write."""
    with pytest.raises(FlightLLMError, match=message):
        session.describe(f"SELECT {sql} AS found FROM {VALUES}")
