"""Predicates move below AI operators, and stay where moving them would change the answer."""

import pytest

from flightllm.rewrite.filter_before_ai import filter_before_ai
from flightllm.session import Database, Session
from tests.databases import ask_both, fired, planned

JOINED = """SELECT p.id, g, h FROM (SELECT *, ai_gen('x', note) AS g FROM people) p
{} JOIN (SELECT *, ai_gen('y', thing) AS h FROM likes) l ON p.id = l.person_id WHERE {}"""
BOTH = "Project(Project(Join(Project(AiMap[ai_gen]({})), Project(AiMap[ai_gen]({})))))"
ABOVE = "Project(Project(Filter(Join(Project(AiMap[ai_gen]({})), Project(AiMap[ai_gen]({}))))))"
UNION = """SELECT * FROM (SELECT id, ai_gen('x', note) AS g FROM people UNION ALL
SELECT person_id, ai_gen('y', thing) FROM likes) WHERE id < 3"""


@pytest.mark.parametrize(
    ("sql", "before", "after", "calls"),
    [
        pytest.param(
            "SELECT id FROM (SELECT id, score, ai_gen('x', note) AS g FROM people) WHERE score > 2 AND length(g) > 3",
            "Project(Filter(Project(AiMap[ai_gen](people))))",
            "Project(Project(Filter(AiMap[ai_gen](Filter(people)))))",
            2,
            id="projection",
        ),
        pytest.param(
            "SELECT * FROM (SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name) "
            "WHERE name > 'B' AND a > 1",
            "Filter(Project(Aggregate(AiMap[ai_score](people))))",
            "Project(Filter(Aggregate(AiMap[ai_score](Filter(people)))))",
            3,
            id="key of an aggregate",
        ),
        pytest.param(
            UNION,
            "Filter(SetOp(Project(AiMap[ai_gen](people)), Project(AiMap[ai_gen](likes))))",
            "SetOp(Project(AiMap[ai_gen](Filter(people))), Project(AiMap[ai_gen](Filter(likes))))",
            3,
            id="union",
        ),
        pytest.param(
            JOINED.format("", "p.score > 1 AND l.weight IS NULL"),
            "Project(Filter(Project(Join(Project(AiMap[ai_gen](people)), Project(AiMap[ai_gen](likes))))))",
            BOTH.format("Filter(people)", "Filter(likes)"),
            4,
            id="both sides of an inner join",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, before: str, after: str, calls: int) -> None:
    """The predicate is below the operator afterwards, the rows are the same, and fewer prompts are sent."""
    assert planned(database, sql, filter_before_ai)[:2] == (before, after)
    on, off = ask_both(session, sql)
    assert on.calls == calls <= off.calls
    assert "filter_before_ai" in fired(session, sql)


@pytest.mark.parametrize(
    ("join", "condition", "after"),
    [
        ("LEFT", "p.score > 1", BOTH.format("Filter(people)", "likes")),
        ("LEFT", "l.weight IS NULL", ABOVE.format("people", "likes")),
        ("RIGHT", "p.name IS NULL", ABOVE.format("people", "likes")),
        ("RIGHT", "l.weight IS NULL", BOTH.format("people", "Filter(likes)")),
        ("FULL", "p.name IS NULL", ABOVE.format("people", "likes")),
        ("FULL", "l.weight IS NULL", ABOVE.format("people", "likes")),
        ("", "p.id + l.weight > 3", ABOVE.format("people", "likes")),
    ],
)
def test_outer_joins(database: Database, session: Session, join: str, condition: str, after: str) -> None:
    """A predicate goes below an outer join only on the side whose rows all survive it."""
    sql = JOINED.format(join, condition)
    assert planned(database, sql, filter_before_ai)[1] == after
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
    ],
)
def test_windows_and_sets(database: Database, session: Session, sql: str) -> None:
    """What a window or a grouping set sees is left as it is: no predicate gets below it."""
    _, after, _ = planned(database, sql, filter_before_ai)
    assert not any(f"Filter({table})" in after for table in ("people", "likes"))
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM (SELECT id, ai_gen('x', note) AS g FROM people) WHERE random() < 2 AND g > ''",
        "SELECT id FROM (SELECT id, random() AS r, ai_gen('x', note) AS g FROM people) WHERE r < 2",
    ],
)
def test_volatile(database: Database, sql: str) -> None:
    """A predicate that may say something else each time stays where it is."""
    assert "Filter(people)" not in planned(database, sql, filter_before_ai)[1]


def test_nothing_to_do(database: Database) -> None:
    """A plan that is as it should be stays the same object, so the driver comes to rest."""
    before, after, fired_rules = planned(
        database,
        "SELECT id FROM people WHERE ai_filter('x', note) AND score > 2 AND ai_filter('y', name)",
        filter_before_ai,
    )
    assert before == after == "Project(Project(Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](Filter(people)))))))"
    assert not fired_rules
