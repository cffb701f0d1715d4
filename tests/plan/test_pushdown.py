"""Plain predicates sink around AI calls, and stay where moving them would change the answer."""

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, plan_of, sketch

JOINED = """SELECT p.id, g, h FROM (SELECT *, ai_gen('x', note) AS g FROM people) p
{} JOIN (SELECT *, ai_gen('y', thing) AS h FROM likes) l ON p.id = l.person_id WHERE {}"""
BOTH = "Project(Project(Join(Project(AiMap[ai_gen]({})), Project(AiMap[ai_gen]({})))))"
BY_KEY = "Project(Join(Project(AiMap[ai_gen](Filter(people))), Project(AiMap[ai_gen](Filter(likes)))))"
ABOVE = "Project(Project(Filter(Join(Project(AiMap[ai_gen]({})), Project(AiMap[ai_gen]({}))))))"
UNION = """SELECT * FROM (SELECT id, ai_gen('x', note) AS g FROM people UNION ALL
SELECT person_id, ai_gen('y', thing) FROM likes) WHERE id < 3"""
EXISTS = (
    "SELECT id FROM people WHERE {} EXISTS (SELECT 1 FROM likes WHERE person_id = id AND ai_filter('x', thing)) AND {}"
)


@pytest.mark.parametrize(
    ("sql", "after", "calls"),
    [
        pytest.param(
            "SELECT id FROM (SELECT id, score, ai_gen('x', note) AS g FROM people) WHERE score > 2 AND length(g) > 3",
            "Project(Filter(Project(AiMap[ai_gen](Filter(people)))))",
            2,
            id="projection",
        ),
        pytest.param(
            "SELECT * FROM (SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name) "
            "WHERE name > 'B' AND a > 1",
            "Project(Filter(Aggregate(AiMap[ai_score](Filter(people)))))",
            3,
            id="key of an aggregate",
        ),
        pytest.param(
            UNION,
            "SetOp(Project(AiMap[ai_gen](Filter(people))), Project(AiMap[ai_gen](Filter(likes))))",
            3,
            id="union",
        ),
        pytest.param(
            JOINED.format("", "p.score > 1 AND l.weight IS NULL"),
            BOTH.format("Filter(people)", "Filter(likes)"),
            2,
            id="both sides of an inner join",
        ),
        pytest.param(
            JOINED.format("", "p.id < 3"),
            BY_KEY,
            3,
            id="across the key of an inner join",
        ),
        pytest.param(
            JOINED.format("LEFT", "p.id < 3"),
            BY_KEY,
            3,
            id="across the key of a left join",
        ),
        pytest.param(
            JOINED.format("RIGHT", "l.person_id < 3"),
            BY_KEY,
            3,
            id="across the key of a right join",
        ),
        pytest.param(
            "SELECT * FROM (SELECT name, rank() OVER (PARTITION BY name ORDER BY ai_score('x', note), id) AS r "
            "FROM people) WHERE name = 'Ann' AND r = 1",
            None,
            2,
            id="partition of a window",
        ),
        pytest.param(EXISTS.format("", "id < 3"), None, 1, id="exists"),
        pytest.param(EXISTS.format("NOT", "id < 3"), None, 1, id="not exists"),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str | None, calls: int) -> None:
    """The predicate is below the operator, the rows are the same, and fewer prompts are sent."""
    assert after in {None, sketch(plan_of(database, sql).root)}
    on, off = ask_both(session, sql)
    assert on.calls == calls <= off.calls


@pytest.mark.parametrize(
    ("join", "condition", "after"),
    [
        ("LEFT", "p.score > 1", BOTH.format("Filter(people)", "likes")),
        ("LEFT", "l.weight IS NULL", ABOVE.format("people", "likes")),
        ("RIGHT", "p.name IS NULL", ABOVE.format("people", "likes")),
        ("RIGHT", "l.weight IS NULL", BOTH.format("people", "Filter(likes)")),
        ("FULL", "p.name IS NULL", ABOVE.format("people", "likes")),
        ("FULL", "l.weight IS NULL", ABOVE.format("people", "likes")),
        ("", "p.name || l.thing > 'a'", ABOVE.format("people", "likes")),
        ("", "p.id + l.weight > 3", ABOVE.format("people", "Filter(likes)")),
        ("", "p.id + l.person_id > 3", ABOVE.format("Filter(people)", "Filter(likes)")[8:-1]),
    ],
)
def test_outer_joins(database: Database, session: Session, join: str, condition: str, after: str) -> None:
    """A predicate goes below an outer join only on the side whose rows all survive it."""
    sql = JOINED.format(join, condition)
    assert sketch(plan_of(database, sql).root) == after
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(
            "SELECT * FROM (SELECT flag, name, avg(ai_score('x', note)) AS a FROM people "
            "GROUP BY GROUPING SETS ((flag), (name))) WHERE name > 'B'",
            id="grouping sets",
        ),
        pytest.param(
            "SELECT * FROM (SELECT id, score, sum(ai_score('x', note)) OVER (ORDER BY id) AS n FROM people) "
            "WHERE score > 2",
            id="window over answers",
        ),
        pytest.param(
            "SELECT * FROM (SELECT id, ai_gen('x', note) AS g, count(*) AS n FROM people GROUP BY id, note) "
            "WHERE n > 0",
            id="aggregate below the operator",
        ),
        pytest.param(
            "SELECT id FROM (SELECT id, ai_gen('x', note) AS g FROM people ORDER BY g LIMIT 5) WHERE id < 3 AND g > ''",
            id="limit",
        ),
        pytest.param(
            "SELECT id FROM (SELECT id, ai_gen('x', note) AS g FROM people) WHERE random() < 2 AND g > ''",
            id="volatile predicate",
        ),
        pytest.param(
            "SELECT id FROM (SELECT id, random() AS r, ai_gen('x', note) AS g FROM people) WHERE r < 2",
            id="volatile column",
        ),
    ],
)
def test_not_moved(database: Database, session: Session, sql: str) -> None:
    """What a window, a grouping set or a limit sees is left as it is: no predicate gets below it."""
    after = sketch(plan_of(database, sql).root)
    assert not any(f"Filter({table})" in after for table in ("people", "likes"))
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls
