"""Groups that an answer about their key drops are not asked about row by row."""

import pytest

from flightllm.optimizer.filter_before_group import filter_before_group
from flightllm.optimizer.rules import RULES
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned

GROUPS = "(SELECT name, upper(name) AS u, avg(ai_score('x', note)) AS a FROM people GROUP BY name)"


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        (
            "SELECT name, avg(ai_score('x', note)) FROM people GROUP BY name HAVING ai_filter('y', name)",
            "Project(Aggregate(Filter(AiMap[ai_filter](AiMap[ai_score](people)))))",
        ),
        (
            f"SELECT u, a FROM {GROUPS} WHERE ai_filter('y', u) AND NOT ai_filter('z', name)",
            "Project(Project(Aggregate(Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](AiMap[ai_score](people))))))))",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str) -> None:
    """The filter on the key comes first, and saves calls of the measure."""
    assert planned(database, sql, filter_before_group)[1] == after
    assert "filter_before_group" in planned(database, sql, *RULES)[2]
    assert "AiMap[ai_score](Filter(AiMap[ai_filter](" in planned(database, sql, *RULES)[1]
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(f"SELECT name FROM {GROUPS} WHERE ai_filter('y', a)", id="reads the measure"),
        pytest.param(f"SELECT name, ai_gen('y', name) FROM {GROUPS} WHERE a > 1", id="filters nothing"),
        pytest.param(
            f"SELECT g FROM (SELECT a, ai_gen('y', name) AS g FROM {GROUPS}) WHERE g > 'b'", id="answer shown"
        ),
        pytest.param(
            "SELECT name, count(*) FROM people GROUP BY name HAVING ai_filter('y', name)", id="no answer is grouped"
        ),
        pytest.param(
            "SELECT name, avg(ai_score('x', note)) FROM people GROUP BY CUBE (name, flag) HAVING ai_filter('y', name)",
            id="several grouping sets",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """A filter stays that reads more than keys, whose answer is shown, or that would save no call."""
    before, after, fired_rules = planned(database, sql, filter_before_group)
    assert before == after
    assert not fired_rules
    ask_both(session, sql)


def test_a_promise_is_about_groups(database: Database, session: Session) -> None:
    """A filter on groups with a promise stays above them, because a group can have many rows below."""
    session.update("CREATE OR REPLACE MODEL small OPTIONS (engine 'fake', model 'small')")
    sql = f"SELECT name FROM {GROUPS} WHERE ai_filter('y', name, recall => 0.9, proxy => 'small')"
    before, after, fired_rules = planned(database, sql, filter_before_group)
    assert before == after
    assert not fired_rules
