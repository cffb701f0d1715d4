"""Calls about the keys of groups come after the groups are made."""

import pytest

from flightllm.optimizer.group_before_ai import group_before_ai
from flightllm.optimizer.rules import RULES
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned


@pytest.mark.parametrize(
    ("sql", "after", "calls"),
    [
        pytest.param(
            "SELECT name, count(*) FROM people WHERE ai_filter('x', name) GROUP BY name HAVING count(*) > 1",
            "Project(Filter(Project(Filter(AiMap[ai_filter](Aggregate(people))))))",
            1,
            id="having",
        ),
        pytest.param(
            "SELECT upper(name), score, max(id) FROM people WHERE ai_score('x', upper(name)) > score GROUP BY 1, 2 "
            "HAVING max(id) > 6",
            "Filter(Project(Filter(AiMap[ai_score](Aggregate(people)))))",
            2,
            id="computed key",
        ),
        pytest.param(
            "SELECT name, g, count(*) FROM (SELECT name, ai_gen('x', name) AS g FROM people) GROUP BY name, g "
            "HAVING count(*) > 1",
            "Project(Filter(Project(AiMap[ai_gen](Aggregate(people)))))",
            1,
            id="answer as a key",
        ),
        pytest.param(
            "SELECT DISTINCT flag, ai_gen('x', flag) FROM people ORDER BY flag LIMIT 1",
            "Fetch(Sort(Project(AiMap[ai_gen](Aggregate(people)))))",
            1,
            id="distinct",
        ),
        pytest.param(
            "SELECT name FROM (SELECT DISTINCT name, flag FROM people WHERE ai_filter('x', name)) WHERE flag "
            "GROUP BY name HAVING count(*) > 5",
            None,
            0,
            id="distinct of groups",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str | None, calls: int) -> None:
    """Rows are grouped first; predicates on the groups, and limits, then save calls."""
    assert after in {None, planned(database, sql, group_before_ai)[1]}
    assert "group_before_ai" in planned(database, sql, *RULES)[2]
    on, off = ask_both(session, sql)
    assert on.calls == calls < off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT name, count(*) FROM people WHERE ai_filter('x', note) GROUP BY name", id="no key"),
        pytest.param("SELECT count(*) FROM people WHERE ai_filter('x', name)", id="no group"),
        pytest.param(
            "SELECT name, avg(ai_score('y', note)) FROM people WHERE ai_filter('x', name) GROUP BY name",
            id="another call reads the rows that pass",
        ),
        pytest.param("SELECT ai_sentiment(note) AS s, count(*) FROM people GROUP BY s", id="answers as the only key"),
        pytest.param("SELECT name, max(ai_gen('x', name)) FROM people GROUP BY name", id="answer in a measure"),
        pytest.param(
            "SELECT flag, name, count(*) FROM people WHERE ai_filter('x', name) GROUP BY ROLLUP (flag, name)",
            id="several grouping sets",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """A call that reads more than the keys, or whose answers decide the groups or the measures, comes before them."""
    before, after, fired_rules = planned(database, sql, group_before_ai)
    assert before == after
    assert not fired_rules
    ask_both(session, sql)


def test_a_promise_is_about_rows(database: Database, session: Session) -> None:
    """A call with a promise stays below the groups, because each group would count as one row above them."""
    session.update("CREATE OR REPLACE MODEL small OPTIONS (engine 'fake', model 'small')")
    call = "ai_classify(name, ['a', 'b'], accuracy => 0.9, proxy => 'small')"
    before, after, fired_rules = planned(database, f"SELECT name, {call} FROM people GROUP BY 1, 2", group_before_ai)
    assert before == after
    assert not fired_rules
