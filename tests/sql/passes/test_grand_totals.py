"""The condition of a join, of WHERE or of HAVING applies to a grand total, not to the rows below it."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    "total",
    [
        "SELECT count(*) AS n FROM likes",
        "SELECT coalesce(sum(weight), 0) AS n FROM likes",
        "SELECT 0 AS n FROM nothing UNION ALL SELECT count(*) FROM likes",
        "SELECT count(*) AS n FROM likes GROUP BY ROLLUP (thing)",
        "WITH w AS (SELECT count(*) AS n FROM likes) SELECT n FROM w",
    ],
)
def test_joins_without_a_partner(session: Session, total: str) -> None:
    """A join keeps the other side's rows with NULL, also over a view."""
    wanted = [{"id": 1, "n": None}]
    session.update(f"CREATE OR REPLACE VIEW total AS {total}")
    for table in (f"({total})", "total"):
        left = f"SELECT p.id, q.n FROM people p LEFT JOIN {table} q ON false WHERE p.id = 1"
        right = f"SELECT p.id, q.n FROM {table} q RIGHT JOIN people p ON p.id IS DISTINCT FROM p.id WHERE p.id = 1"
        assert rows(session, left) == rows(session, right) == wanted
        assert rows(session, f"SELECT n FROM {table} q WHERE (SELECT false)") == []


def test_having(session: Session) -> None:
    """A subquery in HAVING decides on the one row of a grand total."""
    assert rows(session, "SELECT count(*) AS n FROM likes HAVING (SELECT false)") == []
    query = "SELECT count(*) AS n FROM likes HAVING count(*) > 1 AND (SELECT count(*) FROM nothing) {} 0"
    assert rows(session, query.format(">")) == []
    assert rows(session, query.format("=")) == [{"n": 8}]


def test_rows_of_a_total(session: Session) -> None:
    """A total can have several rows, which no limit cuts off."""
    listed = "SELECT unnest(array_agg(id ORDER BY id)) AS i FROM people"
    assert len(rows(session, f"SELECT i FROM ({listed}) q WHERE (SELECT true)")) == 9
