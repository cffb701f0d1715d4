"""LIMIT and ORDER BY … LIMIT on plain keys come before the model."""

import pytest

from flightllm.optimizer.limit_before_ai import limit_before_ai
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, fired, in_order, planned


@pytest.mark.parametrize(
    ("sql", "after", "calls"),
    [
        pytest.param(
            "SELECT id, ai_gen('x', note) FROM people ORDER BY score, id LIMIT 3",
            "Project(Project(AiMap[ai_gen](Fetch(Sort(people)))))",
            3,
            id="plain keys",
        ),
        pytest.param(
            "SELECT id, ai_gen('x', name) FROM people ORDER BY id LIMIT 3 OFFSET 2",
            "Project(AiMap[ai_gen](Fetch(Sort(people))))",
            2,
            id="offset",
        ),
        pytest.param(
            "SELECT upper(ai_gen('x', a => ai_gen('y', note))) FROM people ORDER BY id LIMIT 2",
            "Project(Project(AiMap[ai_gen](AiMap[ai_gen](Fetch(Sort(people))))))",
            2,
            id="nested calls",
        ),
        pytest.param(
            "SELECT id + 1 AS k, ai_gen('x', note) FROM people ORDER BY k DESC LIMIT 4",
            "Project(AiMap[ai_gen](Fetch(Sort(people))))",
            3,
            id="computed key",
        ),
        pytest.param(
            "SELECT name, ai_gen('x', name) FROM people GROUP BY name ORDER BY name LIMIT 3",
            "Project(AiMap[ai_gen](Fetch(Sort(Aggregate(people)))))",
            3,
            id="above an aggregate",
        ),
        pytest.param(
            "SELECT id, ai_gen('x', note), row_number() OVER (ORDER BY id DESC) FROM people ORDER BY id LIMIT 3",
            "Project(AiMap[ai_gen](Fetch(Sort(Project(people)))))",
            2,
            id="above a window",
        ),
        pytest.param(
            "SELECT id, ai_gen('x', note) FROM people UNION ALL SELECT weight + 9, ai_gen('y', thing) FROM likes "
            "ORDER BY 1 LIMIT 1",
            "Fetch(Sort(SetOp(Project(AiMap[ai_gen](Fetch(Sort(people)))), "
            "Project(AiMap[ai_gen](Fetch(Sort(likes)))))))",
            2,
            id="union",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str, calls: int) -> None:
    """Rows are cut off below the operator; the rows and their order stay, and only their prompts are sent."""
    assert planned(database, sql, limit_before_ai)[1] == after
    assert "limit_before_ai" in fired(session, sql)
    on, off = ask_both(session, sql)
    assert in_order(on.table) == in_order(off.table)
    assert on.calls == calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT id FROM people ORDER BY ai_score('x', note), id LIMIT 3", id="key is an answer"),
        pytest.param("SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id LIMIT 3", id="rows are filtered"),
        pytest.param(
            "SELECT ai_gen('x', note) FROM people UNION ALL SELECT ai_gen('y', thing) FROM likes ORDER BY 1 LIMIT 1",
            id="union ordered by answers",
        ),
        pytest.param(
            "SELECT DISTINCT flag, ai_filter('x', note) AS f FROM people ORDER BY 1, 2 LIMIT 3", id="distinct"
        ),
        pytest.param(
            "SELECT id, sum(ai_score('x', note)) OVER (ORDER BY id) FROM people ORDER BY id DESC LIMIT 3", id="window"
        ),
        pytest.param(
            "SELECT p.id, ai_gen('x', q.note) FROM people p JOIN people q ON ai_filter('y', p.note, q.note) "
            "ORDER BY p.id, q.id LIMIT 3",
            id="join by a call",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """A limit is not moved below what decides or counts rows."""
    after = planned(database, sql, limit_before_ai)[1]
    assert "Fetch(Sort(people" not in after
    assert "Fetch(people" not in after
    on, off = ask_both(session, sql)
    assert in_order(on.table) == in_order(off.table)


def test_without_order(database: Database, session: Session) -> None:
    """A bare limit sends no more prompts than it returns rows."""
    sql = "SELECT review_id, ai_gen('x', review_content) FROM reviews LIMIT 5 OFFSET 10"
    assert planned(database, sql, limit_before_ai)[1] == "Project(AiMap[ai_gen](Fetch(reviews)))"
    ran = ask(session, sql, cache="off")
    assert ran.table.num_rows == 5
    assert ran.calls <= 5


def test_volatile_key(database: Database, session: Session) -> None:
    """A random key is computed once, so that the rows come in the order of the values shown."""
    sql = "SELECT random() AS r, ai_gen('x', critic) FROM reviews ORDER BY r LIMIT 20"
    assert not planned(database, sql, limit_before_ai)[2]
    keys = [row["r"] for row in ask(session, sql).rows]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("rest", "after"),
    [
        ("LIMIT 3", "Project(Fetch(AiMap[ai_filter](people)))"),
        ("ORDER BY id LIMIT 3", "Project(Fetch(AiMap[ai_filter](Sort(people))))"),
    ],
)
def test_rows_that_calibrate_a_call_stay(database: Database, rest: str, after: str) -> None:
    """A LIMIT stays above a call that a sample of its rows calibrates; a sort goes below it."""
    sql = f"SELECT id, ai_filter('x', note, calibrate => 'batch') FROM people {rest}"
    assert planned(database, sql, limit_before_ai)[1] == after
