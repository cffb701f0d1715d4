"""Rows without a partner are dropped below operators that must stay below their join."""

import pytest

from flightllm.optimizer.rules import RULES
from flightllm.optimizer.semi_join_before_ai import semi_join_before_ai
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned

SCORES = "(SELECT name, avg(ai_score('x', note)) AS a FROM people GROUP BY name) p"
EXISTS = "SELECT id FROM people WHERE {}EXISTS (SELECT 1 FROM likes WHERE person_id = id AND ai_filter('x', thing))"
LIKED = "(SELECT * FROM likes WHERE ai_filter('x', thing))"
FEW = "(SELECT name, score FROM people WHERE score > 3.6) q"


@pytest.mark.parametrize(
    ("sql", "after", "calls"),
    [
        pytest.param(
            EXISTS.format(""),
            "Join(people, Project(Project(Filter(AiMap[ai_filter](Join(likes, people))))))",
            2,
            id="exists",
        ),
        pytest.param(
            EXISTS.format("NOT "),
            "Join(people, Project(Project(Filter(AiMap[ai_filter](Join(likes, people))))))",
            2,
            id="not exists",
        ),
        pytest.param(
            "SELECT id FROM people WHERE flag OR id IN (SELECT person_id FROM likes WHERE ai_filter('x', thing))",
            None,
            2,
            id="mark join",
        ),
        pytest.param(
            f"SELECT id, thing FROM people LEFT JOIN {LIKED} ON id = person_id",
            "Project(Join(people, Project(Filter(AiMap[ai_filter](Join(likes, people))))))",
            2,
            id="optional side of a left join",
        ),
        pytest.param(
            f"SELECT p.name, a, q.score FROM {SCORES} JOIN {FEW} ON p.name = q.name",
            "Project(Join(Project(Aggregate(AiMap[ai_score](Join(people, Filter(people))))), Filter(people)))",
            2,
            id="grouped answers",
        ),
        pytest.param(
            f"SELECT name, a FROM {SCORES} WHERE a > 1 AND name IN (SELECT name FROM people WHERE score > 3.6)",
            None,
            2,
            id="semi join of grouped answers",
        ),
        pytest.param(
            f"SELECT a FROM {SCORES} WHERE NOT EXISTS (SELECT 1 FROM people r WHERE r.name = p.name AND score < 4)",
            None,
            1,
            id="anti join of grouped answers",
        ),
        pytest.param(
            "SELECT name FROM people WHERE ai_filter('x', note) INTERSECT SELECT name FROM people WHERE score > 3.6",
            "Aggregate(Project(Project(Filter(AiMap[ai_filter](Join(people, Project(Filter(people))))))))",
            2,
            id="intersect",
        ),
        pytest.param(
            "SELECT name FROM people WHERE ai_filter('x', note) EXCEPT SELECT name FROM people WHERE score > 3.6",
            "Aggregate(Project(Project(Filter(AiMap[ai_filter](Join(people, Project(Filter(people))))))))",
            None,
            id="except",
        ),
    ],
)
def test_reduced(database: Database, session: Session, sql: str, after: str | None, calls: int | None) -> None:
    """The rows are the same, and only those are asked about that have a partner."""
    assert after in {None, planned(database, sql, semi_join_before_ai)[1]}
    assert "semi_join_before_ai" in planned(database, sql, *RULES)[2]
    on, off = ask_both(session, sql)
    assert on.calls < off.calls
    assert calls in {None, on.calls}


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(
            "SELECT id FROM people WHERE id NOT IN (SELECT person_id FROM likes WHERE ai_filter('x', thing))",
            id="NULL in the list counts",
        ),
        pytest.param(f"SELECT p.name FROM {SCORES} JOIN likes ON a = weight", id="joined on an aggregate"),
        pytest.param(f"SELECT p.name FROM {SCORES} JOIN {FEW} ON p.name < q.name", id="no equality"),
        pytest.param(f"SELECT p.name FROM {SCORES} FULL JOIN {FEW} ON p.name = q.name", id="full join"),
        pytest.param(
            f"SELECT p.name FROM {SCORES} JOIN (SELECT name FROM people LIMIT 100) q ON p.name = q.name", id="limit"
        ),
        pytest.param(
            f"SELECT p.name FROM {SCORES} JOIN (SELECT name FROM people WHERE random() < 2) q ON p.name = q.name",
            id="volatile other side",
        ),
        pytest.param(
            "SELECT g, n FROM (SELECT g, count(*) AS n FROM (SELECT ai_sentiment(note) AS g FROM people) GROUP BY g) "
            "JOIN (SELECT DISTINCT thing FROM likes) ON g = thing",
            id="joined on an answer",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """Nothing is reduced by what could differ when read again, or by a comparison of what is made of answers."""
    before, after, fired_rules = planned(database, sql, semi_join_before_ai)
    assert before == after
    assert not fired_rules
    ask_both(session, sql)


def test_rests(database: Database) -> None:
    """A copied join is not copied again, also where another one was put below it."""
    sql = f"""SELECT p.name, a, q.score, r.id FROM {SCORES} JOIN {FEW} ON p.name = q.name
        JOIN (SELECT name, id FROM people WHERE flag) r ON p.name = r.name"""
    after = planned(database, sql, *RULES)[1]
    assert after.count("AiMap") == 1
    assert after.count("Join(") <= 4
