"""Operators and filters are pulled up past joins, so that rows without a partner are never asked about."""

import pytest

from flightllm.optimizer.join_before_ai import join_before_ai
from flightllm.optimizer.rules import RULES
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned

ANSWERS = "(SELECT id, name, note, score, ai_gen('x', note) AS g FROM people) p"
PASSED = "(SELECT id, name, note FROM people WHERE ai_filter('x', note)) p"
THINGS = "(SELECT person_id, weight, ai_gen('y', thing) AS h FROM likes) l"


@pytest.mark.parametrize(
    ("sql", "after", "calls"),
    [
        pytest.param(
            f"SELECT id, g, thing FROM {ANSWERS} JOIN likes ON id = person_id",
            "Project(Project(AiMap[ai_gen](Join(people, likes))))",
            3,
            id="left",
        ),
        pytest.param(
            f"SELECT thing, g FROM likes JOIN {ANSWERS} ON id = person_id",
            "Project(Project(AiMap[ai_gen](Join(likes, people))))",
            3,
            id="right",
        ),
        pytest.param(
            f"SELECT id, thing FROM {PASSED} JOIN likes ON id = person_id",
            "Project(Project(Filter(AiMap[ai_filter](Join(people, likes)))))",
            3,
            id="filter",
        ),
        pytest.param(
            f"SELECT id, g, h FROM {ANSWERS} JOIN {THINGS} ON id = person_id",
            "Project(Project(AiMap[ai_gen](AiMap[ai_gen](Join(people, likes)))))",
            5,
            id="both",
        ),
        pytest.param(
            f"SELECT id, g, h FROM {ANSWERS} JOIN {THINGS} ON id = person_id AND g < h",
            "Project(Filter(Project(AiMap[ai_gen](AiMap[ai_gen](Join(people, likes))))))",
            5,
            id="an answer in the condition",
        ),
        pytest.param(
            f"SELECT id, g, thing FROM {ANSWERS} LEFT JOIN likes ON id = person_id",
            "Project(Project(AiMap[ai_gen](Join(people, likes))))",
            4,
            id="kept side of a left join",
        ),
        pytest.param(
            f"SELECT id, thing FROM likes RIGHT JOIN {PASSED} ON id = person_id WHERE thing IS NULL",
            "Project(Project(Filter(Project(Filter(AiMap[ai_filter](Join(likes, people)))))))",
            4,
            id="filter on the kept side of a right join",
        ),
        pytest.param(
            f"SELECT id, g || '!' AS e, coalesce(g, 'none'), thing FROM likes LEFT JOIN {ANSWERS} ON id = person_id",
            "Project(Project(AiMap[ai_gen?](Join(likes, Project(people)))))",
            3,
            id="optional side of a left join",
        ),
        pytest.param(
            "SELECT id, one, g FROM (SELECT id, 1 AS one, coalesce(ai_gen('x', note), 'none') AS g FROM people) p "
            "RIGHT JOIN likes ON id = person_id",
            "Project(Project(AiMap[ai_gen?](Join(Project(people), likes))))",
            3,
            id="optional side of a right join, what is never NULL",
        ),
        pytest.param(
            f"SELECT id, g FROM {ANSWERS} WHERE EXISTS (SELECT 1 FROM likes WHERE person_id = id)",
            "Project(AiMap[ai_gen](Join(people, likes)))",
            3,
            id="semi join",
        ),
        pytest.param(
            f"SELECT id FROM {PASSED} WHERE NOT EXISTS (SELECT 1 FROM likes WHERE person_id = id)",
            "Project(Filter(AiMap[ai_filter](Join(people, likes))))",
            3,
            id="anti join",
        ),
        pytest.param(
            f"SELECT id, g FROM {ANSWERS} WHERE id NOT IN (SELECT person_id FROM likes WHERE person_id IS NOT NULL)",
            "Project(AiMap[ai_gen](Join(people, Filter(likes))))",
            3,
            id="not in",
        ),
        pytest.param(
            f"SELECT person_id, h FROM people RIGHT SEMI JOIN {THINGS} ON id = person_id",
            "Project(AiMap[ai_gen](Join(people, likes)))",
            2,
            id="right semi join",
        ),
        pytest.param(
            f"SELECT id, g FROM {ANSWERS} WHERE id > 7 OR EXISTS (SELECT 1 FROM likes WHERE person_id = id)",
            "Project(Filter(Project(AiMap[ai_gen](Join(people, likes)))))",
            4,
            id="mark join",
        ),
        pytest.param(
            f"SELECT id, g FROM {ANSWERS} CROSS JOIN (SELECT count(*) AS n FROM likes) WHERE id > n",
            "Project(Filter(Project(AiMap[ai_gen](Join(people, Project(Aggregate(likes)))))))",
            1,
            id="one row beside it",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str, calls: int) -> None:
    """The join comes first; the rows are the same, and only those that it keeps are asked about."""
    assert planned(database, sql, join_before_ai)[1] == after
    assert "join_before_ai" in planned(database, sql, *RULES)[2]
    on, off = ask_both(session, sql)
    assert on.calls == calls < off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(f"SELECT id, g, thing FROM {ANSWERS} CROSS JOIN likes", id="cross join"),
        pytest.param(f"SELECT id, g, thing FROM {ANSWERS} JOIN likes ON id < person_id", id="no equality"),
        pytest.param(f"SELECT id, h FROM {ANSWERS} JOIN {THINGS} ON g = h AND id < person_id", id="answers compared"),
        pytest.param(f"SELECT id, g, thing FROM {ANSWERS} LEFT JOIN likes ON g = thing", id="answer in an outer join"),
        pytest.param(f"SELECT id, thing FROM likes LEFT JOIN {PASSED} ON id = person_id", id="filter on optional side"),
        pytest.param(f"SELECT id, g, h FROM {ANSWERS} FULL JOIN {THINGS} ON id = person_id", id="full join"),
        pytest.param(
            f"SELECT name FROM people WHERE EXISTS (SELECT 1 FROM {PASSED} WHERE p.id = people.id)", id="exists"
        ),
        pytest.param(
            f"SELECT id, g FROM {ANSWERS} WHERE g IN (SELECT thing FROM likes)",
            id="answer in the condition of a semi join",
        ),
        pytest.param(
            "SELECT id, thing FROM (SELECT id, ai_gen('x', n => random()) AS g FROM people) p "
            "LEFT JOIN likes ON id = person_id WHERE g IS NOT NULL",
            id="volatile argument",
        ),
        pytest.param(
            "SELECT id, thing FROM (SELECT id, sum(ai_score('x', note)) OVER (ORDER BY id) AS s FROM people) p "
            "JOIN likes ON id = person_id WHERE s > 1",
            id="window",
        ),
        pytest.param(
            "SELECT id, thing FROM (SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id LIMIT 4) p "
            "JOIN likes ON id = person_id",
            id="limit",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """What a condition, a limit or a window reads stays below the join, and so does what a join only multiplies."""
    before, after, fired_rules = planned(database, sql, join_before_ai)
    assert before == after
    assert not fired_rules
    ask_both(session, sql)


def test_three_tables(database: Database, session: Session) -> None:
    """Filters of all tables end up next to one another above all joins."""
    sql = f"""SELECT p.id FROM {PASSED} JOIN (SELECT * FROM likes WHERE ai_filter('y', thing)) l ON p.id = person_id
        JOIN people q ON q.id = l.weight AND ai_filter('z', q.name)"""
    after = planned(database, sql, *RULES)[1]
    assert after.count("Filter(AiMap[ai_filter](") == 3
    assert "Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](Join(" in after
    ask_both(session, sql)


SHARED = {
    "no fields": "ai_gen('say')",
    "a text for NULL": "ai_gen('say', t => coalesce(thing, 'none'))",
    "struct": "ai_gen('say', t => coalesce(thing, 'none'), on_error => 'struct')",
    "filter": "ai_filter('say', t => coalesce(thing, 'none'))",
    "guarded": "CASE WHEN weight > 1 THEN ai_gen('say', t => coalesce(thing, 'none')) END",
    "nested": "ai_gen('on', t => coalesce(ai_gen('say', t => coalesce(thing, 'none')), 'none'))",
}


@pytest.mark.parametrize("call", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize(
    "join", ["people p LEFT JOIN {} ON id = person_id", "{} RIGHT JOIN people p ON id = person_id"]
)
@pytest.mark.parametrize("where", ["", "WHERE g IS NULL", "WHERE g IS NOT NULL OR id > 7"])
def test_missing_rows_have_no_answer(session: Session, call: str, join: str, where: str) -> None:
    """A row without a match has no answer, though rows with one have the same arguments."""
    side = f"(SELECT person_id, {call} AS g FROM likes) l"
    on, _ = ask_both(session, f"SELECT id, person_id, g FROM {join.format(side)} {where}")
    missing = [row for row in on.rows if row["person_id"] is None]
    assert missing
    assert all(row["g"] is None for row in missing)
