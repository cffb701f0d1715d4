"""A null-safe condition of one join does not change what NULL means in the other joins."""

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows

CHAIN = "a JOIN b ON a.g = b.g JOIN r ON r.k IS NOT DISTINCT FROM a.g"


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with tables that have NULL in each column."""
    for table in ("a (g int, x int)", "b (g int, y int)", "r (k int, z int)"):
        session.update(f"CREATE TABLE {table}")
        session.update(f"INSERT INTO {table[0]} VALUES (1, 1), (NULL, 2), (3, NULL)")
    return session


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT a.g FROM {CHAIN}", [(1,), (3,)]),
        ("SELECT a.g FROM a JOIN r ON r.k IS NOT DISTINCT FROM a.g JOIN b ON a.x = b.y", [(1,), (None,)]),
        ("SELECT a.g FROM a JOIN r ON r.k <=> a.g JOIN b ON a.x = b.y", [(1,), (None,)]),
        ("SELECT a.g FROM a JOIN b ON a.g = b.g JOIN r ON r.k <=> a.g", [(1,), (3,)]),
        (f"SELECT a.g FROM {CHAIN} AND ai_filter('keep', r.z::text) IS NOT NULL", [(1,)]),
        ("SELECT a.g FROM a, b, r WHERE a.g = b.g AND (r.k IS DISTINCT FROM a.g) = false", [(1,), (3,)]),
        ("SELECT a.g FROM a, b, r WHERE a.g = b.g AND NOT (r.k IS DISTINCT FROM a.g OR z = 9)", [(1,)]),
    ],
)
def test_null_has_the_meaning_of_each_join(session: Session, sql: str, wanted: list[tuple[object, ...]]) -> None:
    """Rows with NULL match only where the condition is null-safe."""
    found = [tuple(row.values()) for row in ask(session, sql).table.to_pylist()]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_views_and_new_tables_have_such_joins(session: Session) -> None:
    """The text of a view and the query of CREATE TABLE are changed, too."""
    session.update(f"CREATE VIEW chained AS SELECT a.g FROM {CHAIN}")
    session.update(f"CREATE TABLE copied AS SELECT a.g FROM {CHAIN}")
    assert rows(session, "SELECT count(*) AS n FROM chained") == [{"n": 2}]
    assert rows(session, "SELECT count(*) AS n FROM copied") == [{"n": 2}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.g FROM a JOIN b ON a.g IS NOT DISTINCT FROM b.g",
        "SELECT a.g FROM a, b, r WHERE a.g IS NOT DISTINCT FROM 1",
        "SELECT DISTINCT a.g FROM a, b, r WHERE a.g = b.g",
    ],
)
def test_other_texts_stay(sql: str) -> None:
    """A text without a chain of joins, or without such a condition between columns, stays."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))


def test_the_condition_is_a_key_of_the_join(session: Session) -> None:
    """A join with keys compares no pairs of rows one by one."""
    plan = ask(session, f"EXPLAIN SELECT a.g FROM {CHAIN}").table.to_pylist()
    assert "HashJoin" in str(plan)
    assert "NestedLoop" not in str(plan)


def test_rows_with_null_survive_the_filters_of_other_joins(session: Session) -> None:
    """A join sends the values of its keys as a filter to its other side."""
    sql = (
        "SELECT a.x, n FROM a LEFT JOIN (SELECT d.g, count(r.k) AS n FROM (SELECT DISTINCT g FROM a) d LEFT JOIN"
        " (SELECT DISTINCT b.g, b.g AS k FROM b JOIN r ON r.k = b.g) r ON r.g IS NOT DISTINCT FROM d.g GROUP BY d.g) t"
        " ON t.g IS NOT DISTINCT FROM a.g"
    )
    assert sorted(map(str, (row["n"] for row in rows(session, sql)))) == ["0", "1", "1"]
