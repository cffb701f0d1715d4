"""Rows by likeness come from an index where one fits, and are those that comparing all would give."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import rows
from tests.indexes import indexed
from tests.packages import needs

pytestmark = needs("faiss", "tantivy", extra="vector")

BY_LIKENESS = "SELECT id FROM fruit {where} ORDER BY ai_similarity(name, 'an apple') DESC{nulls} LIMIT {limit}"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a session with a table and an index over it."""
    with indexed(tmp_path) as session:
        yield session


@pytest.mark.parametrize(
    ("where", "nulls", "limit", "uses"),
    [
        ("", " NULLS LAST", 2, True),
        ("WHERE id > 1 AND name LIKE 'a%'", " NULLS LAST", 2, True),
        ("WHERE id > 1 AND ai_filter('good', name)", " NULLS LAST", 2, False),
        ("WHERE name IS NOT NULL", " NULLS LAST", "2 OFFSET 1", True),
        ("", "", 2, True),
        ("", " NULLS LAST", 6, False),
    ],
)
def test_order_by_likeness(session: Session, where: str, nulls: str, limit: object, uses: bool) -> None:
    """An index that fits finds the first rows; they are those that all rows, compared one by one, would give."""
    sql = BY_LIKENESS.format(where=where, nulls=nulls, limit=limit)
    told = rows(session, f"EXPLAIN {sql}")
    assert ("nearest_by_index" in told[0]["plan"]) is uses
    assert any(line["plan_type"] == "vector index names" for line in told) is uses
    found = rows(session, sql)
    session.update("DROP VECTOR INDEX names")
    assert rows(session, sql) == found


def test_a_stale_index_is_not_used(session: Session) -> None:
    """New rows are found at once."""
    session.update("INSERT INTO fruit VALUES (9, 'an apple')")
    sql = BY_LIKENESS.format(where="", nulls=" NULLS LAST", limit=1)
    assert rows(session, sql) == [{"id": 9}]
    session.update("REFRESH VECTOR INDEX names")
    assert rows(session, sql) == [{"id": 9}]
    assert "nearest_by_index" in rows(session, f"EXPLAIN {sql}")[0]["plan"]


@pytest.mark.parametrize("kind", ["flat", "ivf', lists '16', probes '1", "hnsw', neighbors '4', search_depth '4"])
def test_order_by_likeness_of_many(session: Session, kind: str) -> None:
    """No index returns fewer rows than the LIMIT, nor other rows where a second key decides between equal ones."""
    name = "CASE WHEN value % 3 = 0 THEN 'the same note' ELSE concat('note ', value) END"
    session.update(f"CREATE TABLE notes AS SELECT value AS id, {name} AS name FROM generate_series(1, 600)")
    count, sql = "SELECT count(*) AS n FROM ({})", BY_LIKENESS.replace("fruit", "notes")
    ties = sql.format(where="", nulls=" NULLS LAST, id DESC", limit=20)
    nearest = sql.format(where="", nulls=" NULLS LAST", limit=3)
    wanted = rows(session, ties)
    scores = "SELECT ai_similarity(name, 'an apple') AS score FROM notes WHERE id IN ({}) ORDER BY 1"
    near = rows(session, scores.format(nearest))
    session.update(f"CREATE VECTOR INDEX notes ON notes(name) OPTIONS (type '{kind}')")
    assert rows(session, ties) == wanted
    assert rows(session, count.format(sql.format(where="", nulls=" NULLS LAST", limit=300))) == [{"n": 300}]
    if kind == "flat":
        assert "nearest_by_index" in rows(session, f"EXPLAIN {nearest}")[0]["plan"]
        assert rows(session, scores.format(nearest)) == near
