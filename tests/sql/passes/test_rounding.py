"""Casts to whole numbers round as PostgreSQL does."""

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with a table that has a column of each type."""
    session.update("CREATE TABLE t (n numeric(8, 2), d double precision, r real, i int, b bigint)")
    session.update("INSERT INTO t VALUES (2.5, 2.5, 2.5, 2, 9007199254740993), (NULL, NULL, NULL, NULL, NULL)")
    return session


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("n::int", 3),
        ("CAST(-n AS smallint)", -3),
        ("TRY_CAST(d AS bigint)", 2),
        ("r::int", 2),
        ("b::numeric::bigint", 9007199254740993),
        ("(d + 1)::int", 4),
        ("(i * 1.25)::int", 3),
        ("round(d)::int", 2),
        ("round(n)::int", 3),
        ("CASE WHEN ai_filter('keep', 'a') IS NULL THEN n ELSE n END::int", 3),
        ("ARRAY[n, 1]::int[]", [3, 1]),
        ("(SELECT max(d) FROM t)::int", 2),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """Halves of a numeric go away from zero, and halves of a double to the even neighbor; NULL stays."""
    found = ask(session, f"SELECT {value} AS v FROM t ORDER BY i").table.to_pylist()
    assert found[0] == {"v": wanted}


def test_changes_and_views(session: Session) -> None:
    """Changes, their conditions and views round, too."""
    session.update("CREATE TABLE u (i int, d double precision)")
    session.update("INSERT INTO u SELECT d::int, d FROM t WHERE d::int = 2")
    session.update("UPDATE u SET i = (d + 1)::int WHERE round(d) = 2")
    session.update("CREATE VIEW w AS SELECT (d + 1)::int AS v FROM u")
    assert rows(session, "SELECT i, v FROM u, w") == [{"i": 4, "v": 4}]
    assert session.update("DELETE FROM u WHERE d::int = 2") == 1


@pytest.mark.parametrize(
    "sql", ["SELECT i::int FROM t", "SELECT d::double precision FROM t", "SELECT round(d, 1) FROM t", "SELECT '5'::int"]
)
def test_other_texts_stay(sql: str) -> None:
    """A text without such a cast stays."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))


def test_other_dialects_keep_their_casts(session: Session) -> None:
    """A dialect that cuts the fraction still does."""
    sql = "SELECT CAST(CAST(2.7 AS DOUBLE) AS INT) AS v"
    assert ask(session, sql, **{"flightllm.dialect": "spark"}).table.to_pylist() == [{"v": 2}]
    assert ask(session, sql, **{"flightllm.dialect": "snowflake"}).table.to_pylist() == [{"v": 3}]
