"""Plans cross Substrait into our nodes and back without changing what they compute."""

import pyarrow as pa
import pytest

from flightllm.plan.nodes import Node
from flightllm.plan.stages import stage_frame
from flightllm.plan.substrait import NotExpressibleError, to_plan, write
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, canonical, in_order, plan_of

PLAIN = [
    "SELECT * FROM people",
    "SELECT id, upper(name) || '!', score * 2 FROM people WHERE score > 1 AND (flag OR name IS NULL)",
    "SELECT flag, count(*), count(DISTINCT name), avg(score) FILTER (WHERE id > 2) FROM people GROUP BY flag",
    "SELECT flag, name, sum(id) FROM people GROUP BY CUBE (flag, name)",
    "SELECT note, flag, name, sum(id) FROM people GROUP BY note, ROLLUP (name, flag)",
    "SELECT DISTINCT name FROM people",
    "SELECT p.id, l.thing FROM people p JOIN likes l ON p.id = l.person_id AND l.weight > 1",
    "SELECT p.id, l.thing FROM people p LEFT JOIN likes l ON p.id = l.person_id AND p.score > 2",
    "SELECT p.id, l.thing FROM people p RIGHT JOIN likes l ON p.id = l.person_id AND p.score > 2",
    "SELECT p.id, l.thing FROM people p FULL JOIN likes l ON p.id = l.person_id AND p.score > 2",
    "SELECT id FROM people WHERE id IN (SELECT person_id FROM likes)",
    "SELECT id FROM people WHERE EXISTS (SELECT 1 FROM likes WHERE person_id = id) OR score > 3",
    "SELECT id FROM people WHERE NOT EXISTS (SELECT 1 FROM likes WHERE person_id = id)",
    "SELECT a.id, b.id FROM people a CROSS JOIN people b WHERE a.id < 3",
    "SELECT id FROM people UNION ALL SELECT person_id FROM likes",
    "SELECT id FROM people UNION SELECT person_id FROM likes",
    "SELECT name FROM people INTERSECT SELECT 'Ann'",
    "SELECT name FROM people EXCEPT SELECT 'Ann'",
    "SELECT id, rank() OVER (PARTITION BY flag ORDER BY score, id), sum(score) OVER (ORDER BY id) FROM people",
    "SELECT CASE score WHEN 3.5 THEN 'a' ELSE name END, CASE WHEN flag THEN 1 END FROM people",
    "SELECT CAST(day AS TIMESTAMP) + INTERVAL '1 day', extract(year FROM day), day > DATE '2023-01-01' FROM people",
    "SELECT id IN (1, 2), name LIKE 'A%', score BETWEEN 1 AND 3, nullif(name, 'Ann') FROM people",
    "WITH t AS (SELECT id FROM people WHERE flag) SELECT a.id, b.id FROM t a, t b",
    "SELECT id FROM people WHERE score > (SELECT avg(weight) / 2 FROM likes)",
    "SELECT 1, 'a', NULL, DATE '2024-01-01', 1.5::decimal(5, 2)",
]
ORDERED = [
    "SELECT id FROM people ORDER BY score DESC NULLS LAST, id",
    "SELECT id, score FROM people ORDER BY score NULLS FIRST, id DESC LIMIT 4 OFFSET 2",
    "SELECT name, count(*) AS n FROM people GROUP BY name ORDER BY n DESC, name NULLS FIRST LIMIT 3",
]


def round_trip(database: Database, sql: str) -> pa.Table:
    """Run a query from our nodes."""
    plan = plan_of(database, sql)
    context = database.catalog.context()
    return stage_frame(context, to_plan(plan.root, plan.functions)).to_arrow_table()


@pytest.mark.parametrize("sql", PLAIN)
def test_round_trip(database: Database, session: Session, sql: str) -> None:
    """A query without AI calls returns the same from our nodes."""
    assert canonical(round_trip(database, sql)) == canonical(ask(session, sql).table)


@pytest.mark.parametrize("sql", ORDERED)
def test_order(database: Database, session: Session, sql: str) -> None:
    """Directions, NULLs' places, limit and offset survive."""
    assert in_order(round_trip(database, sql)) == in_order(ask(session, sql).table)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param("SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes)", [], id="NULL in the list"),
        pytest.param(
            "SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE person_id IS NOT NULL)",
            [4, 5, 6, 8, 9],
            id="no NULL",
        ),
        pytest.param(
            "SELECT id FROM people WHERE name NOT IN (SELECT thing FROM likes WHERE weight = 9)",
            [1, 2, 4, 5, 7, 8, 9],
            id="NULL on the left",
        ),
        pytest.param(
            "SELECT id FROM people WHERE name NOT IN (SELECT thing FROM likes WHERE weight = 99)",
            [1, 2, 3, 4, 5, 6, 7, 8, 9],
            id="empty list",
        ),
    ],
)
def test_not_in(database: Database, session: Session, sql: str, expected: list[int]) -> None:
    """NOT IN keeps its treatment of NULL, which Substrait has no words for; beside an AI call too."""
    assert sorted(round_trip(database, sql).column(0).to_pylist()) == expected
    on, off = ask_both(session, f"{sql} AND coalesce(ai_filter('x', note), true) IS NOT NULL")
    assert sorted(row["id"] for row in on.rows) == expected
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT unnest([id, 1]) FROM people", "Unsupported plan type: Unnest"),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
            "RecursiveQuery",
        ),
        ("VALUES (ai_gen('x', a => 'one')), ('b')", "an AI call is in a scan"),
        ("SELECT id FROM people ORDER BY (SELECT max(ai_gen('x', thing)) FROM likes)", "an AI call is in a sort"),
        ("SELECT (SELECT ai_gen('x', thing) FROM likes) FROM people", "can return several rows"),
        ("SELECT id FROM people p WHERE id NOT IN (SELECT weight FROM likes l WHERE l.person_id = p.id)", "correlated"),
    ],
)
def test_not_expressible(database: Database, sql: str, reason: str) -> None:
    """What the nodes cannot carry is refused with the reason, never dropped."""
    with pytest.raises(NotExpressibleError, match=reason):
        plan_of(database, sql)


def test_operator_has_no_form(database: Database) -> None:
    """An AI operator cannot be written by mistake."""
    root: Node = plan_of(database, "SELECT ai_gen('x', note) FROM people").root
    with pytest.raises(NotExpressibleError, match="no Substrait form"):
        write(root)
