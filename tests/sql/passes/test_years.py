"""Tests of the year of a timestamp give no NULL for years outside of nanoseconds."""

from pathlib import Path

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows, small_database

_DIALECTS = ("", "postgres", "duckdb", "databricks", "bigquery", "snowflake")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a session with a table of times with and without a zone."""
    session = small_database(Path(tmp_path_factory.mktemp("years"))).session()
    session.update("CREATE TABLE times (id int, t timestamp, z timestamptz)")
    session.update(
        "INSERT INTO times VALUES (1, '2024-03-01 10:00:00', '2024-03-01 10:00:00+00'),"
        " (2, '1969-05-01 00:00:00', '1969-05-01 00:00:00+00'), (3, NULL, NULL)"
    )
    session.update("CREATE VIEW with_years AS SELECT id, extract(year FROM t) AS y FROM times")
    return session


@pytest.mark.parametrize("dialect", _DIALECTS)
@pytest.mark.parametrize("column", ["t", "z"])
def test_far_years(session: Session, dialect: str, column: str) -> None:
    """Each comparison with a far year counts the two times, in each dialect."""
    year = f"extract(year FROM {column})"
    tests = (f"{year} > 1500", f"0 < {year}", f"{year} < 2262", f"{year} <> 1500", f"{year} BETWEEN 1 AND 9999")
    for test in (*tests, f"{year} IN (1969, 2024, 1500)", f"NOT {year} = 9999"):
        sql = f"SELECT count(*) AS n FROM times WHERE {test}"
        found = ask(session, sql, **({"flightllm.dialect": dialect} if dialect else {})).rows
        assert found == [{"n": 2}], test


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT y FROM (SELECT extract(year FROM t) AS y FROM times) AS v WHERE y > 1500 ORDER BY y", [1969, 2024]),
        ("SELECT y FROM with_years WHERE y < 3000 ORDER BY y", [1969, 2024]),
        ("SELECT id FROM times WHERE date_part('years', t) = 1969", [2]),
        (
            "WITH y AS (SELECT t FROM times) SELECT extract(year FROM t) = 1969 FROM y GROUP BY extract(year FROM t)",
            [True, False, None],
        ),
        ("SELECT CASE extract(year FROM t) WHEN 1500 THEN 0 ELSE id END AS v FROM times ORDER BY id", [1, 2, 3]),
        ("SELECT extract(year FROM interval '3 years') > 1 AS v", [True]),
    ],
)
def test_places(session: Session, sql: str, wanted: list[object]) -> None:
    """A year keeps its value in subqueries, views, groups and CASE."""
    found = [next(iter(row.values())) for row in rows(session, sql)]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_near_years_stay() -> None:
    """A test of a near year in WHERE, and the year of a date, are not changed."""
    for sql in (
        "SELECT 1 FROM times WHERE extract(year FROM t) = 2024 AND date_part('year', t) < 2030 GROUP BY t",
        "SELECT extract(year FROM date '2024-01-01') > 1500",
    ):
        assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
