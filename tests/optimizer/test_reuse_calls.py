"""The same call on the same row is made once per query."""

import pytest

from flightllm.optimizer.reuse_calls import reuse_calls
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, ask_both, fired, planned


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        pytest.param(
            "SELECT id, ai_score('x', note) FROM people WHERE ai_score('x', note) > 3",
            "Project(Project(Project(Filter(AiMap[ai_score](people)))))",
            id="selected and filtered",
        ),
        pytest.param(
            "SELECT id, ai_score('x', note) FROM people WHERE ai_score('x', note) > 3 "
            "ORDER BY ai_score('x', note) DESC",
            "Sort(Project(Project(Project(Filter(AiMap[ai_score](people))))))",
            id="ordered too",
        ),
        pytest.param(
            "SELECT id, ai_score('x', note => text) FROM "
            "(SELECT id, note AS text FROM people WHERE ai_score('x', note) > 3 LIMIT 99)",
            "Project(Project(Fetch(Project(Project(Filter(AiMap[ai_score](people)))))))",
            id="under another name and above a limit",
        ),
        pytest.param(
            "SELECT id, ai_score('x', note) FROM people WHERE ai_score('x', note) > 1 AND ai_filter('y', name)",
            "Project(Project(Project(Filter(AiMap[ai_filter](Filter(AiMap[ai_score](people)))))))",
            id="above another operator",
        ),
    ],
)
def test_reused(database: Database, session: Session, sql: str, after: str) -> None:
    """One operator is left, and the projection reads its column."""
    assert planned(database, sql, reuse_calls)[1] == after
    assert "reuse_calls" in fired(session, sql)
    on, off = ask_both(session, sql)
    assert on.calls < off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT id, ai_score('x', name) FROM people WHERE ai_score('x', note) > 3", id="another column"),
        pytest.param("SELECT id, ai_score('y', note) FROM people WHERE ai_score('x', note) > 3", id="another prompt"),
        pytest.param("SELECT id, ai_score('x', note, low => 1) FROM people WHERE ai_score('x', note) > 3", id="option"),
        pytest.param(
            "SELECT id, ai_score('x', note) FROM people WHERE flag OR ai_score('x', note) > 3", id="guarded below"
        ),
        pytest.param(
            "SELECT max(note), ai_score('x', max(note)) FROM people WHERE ai_score('x', note) > 3",
            id="aggregate between",
        ),
        pytest.param(
            "SELECT ai_gen('x', a => random()) FROM people WHERE ai_gen('x', a => random()) > ''", id="random argument"
        ),
    ],
)
def test_not_reused(database: Database, sql: str) -> None:
    """Calls that may have other answers are both made."""
    before, after, fired_rules = planned(database, sql, reuse_calls)
    assert before == after
    assert not fired_rules


def test_same_prompt_in_one_query(session: Session) -> None:
    """Even where no operator can be shared, a prompt is sent once per query."""
    ran = ask(
        session, "SELECT ai_sentiment(p.note) FROM people p UNION ALL SELECT ai_sentiment(note) FROM people", cache="on"
    )
    assert ran.calls == 4
    assert ran.table.num_rows == 18
