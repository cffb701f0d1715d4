"""Random queries are of every kind, and PostgreSQL can plan each of them."""

import pytest

from tests.postgres import binaries, cluster
from tests.sql.reference.minimal import smaller
from tests.sql.reference.random_texts import random_text
from tests.sql.reference.tables import TABLES

SEEDS = range(400)
CLAUSES = (
    " JOIN ", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LATERAL", "WITH w AS", "UNION ALL", "UNION SELECT",
    "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "GROUP BY", "ROLLUP", "CUBE", "HAVING", "FILTER (WHERE",
    "OVER (", "GROUPS BETWEEN", "DISTINCT ON", "SELECT DISTINCT", "EXISTS (", "NOT EXISTS", " IN (SELECT", "NOT IN (",
    " ANY (", " ALL (", "ORDER BY v LIMIT 1", "LIMIT", "OFFSET", "CASE WHEN", "coalesce", "nullif", "BETWEEN", "LIKE",
    "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "IS NOT TRUE", "interval '1 day'", "AT TIME ZONE", "::date",
    "NULL::int",
)  # fmt: skip


def test_texts() -> None:
    """The texts have every clause, and a seed always gives the same one."""
    texts = [random_text(seed) for seed in SEEDS]
    assert texts == [random_text(seed) for seed in SEEDS]
    assert len(set(texts)) == len(texts)
    for clause in CLAUSES:
        assert sum(clause in text for text in texts) >= 5, clause


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
@pytest.mark.slow
def test_postgres_plans_them() -> None:
    """PostgreSQL runs the texts, and its cells are of the types that it describes."""
    with cluster() as server:
        setup = [statement for statements in TABLES.values() for statement in statements]
        answers = server.answers(setup, [[random_text(seed)] for seed in SEEDS])
    assert [one.error for (one,) in answers if one.error] == []
    assert all(len(row) == len(one.columns) for (one,) in answers for row in one.rows)
    assert sum(bool(one.rows) for (one,) in answers) > len(SEEDS) / 3


def test_smaller() -> None:
    """Smaller queries lack a part, or have a part in the place of the whole."""
    found = list(smaller("SELECT a, b FROM t JOIN u ON t.x = u.x WHERE NOT a = 1 AND b = 2 ORDER BY a LIMIT 1"))
    for one in (
        "SELECT a FROM t JOIN u ON t.x = u.x WHERE NOT a = 1 AND b = 2 ORDER BY a LIMIT 1",
        "SELECT a, b FROM t WHERE NOT a = 1 AND b = 2 ORDER BY a LIMIT 1",
        "SELECT a, b FROM t JOIN u ON t.x = u.x ORDER BY a LIMIT 1",
        "SELECT a, b FROM t JOIN u ON t.x = u.x WHERE b = 2 ORDER BY a LIMIT 1",
        "SELECT a, b FROM t JOIN u ON t.x = u.x WHERE a = 1 AND b = 2 ORDER BY a LIMIT 1",
        "SELECT a, b FROM t JOIN u ON t.x = u.x WHERE NOT a = 1 AND b = 2 LIMIT 1",
        "SELECT a, b FROM t JOIN u ON t.x = u.x WHERE NOT a = 1 AND b = 2 ORDER BY a",
    ):
        assert one in found
    assert found == sorted(found, key=len)
