"""Operators that do not need each other share their pass over the rows."""

import pytest

from flightllm.optimizer.merge_operators import merge_operators
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, fired, planned


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        (
            "SELECT ai_gen('x', note), ai_score('y', note), ai_filter('z', name) FROM people",
            "Project(AiMap[ai_gen, ai_score, ai_filter](people))",
        ),
        (
            "SELECT CASE WHEN ai_filter('x', note) THEN ai_gen('y', note) ELSE ai_gen('z', note) END FROM people",
            "Project(AiMap[ai_gen?, ai_gen?](AiMap[ai_filter](people)))",
        ),
        (
            "SELECT ai_gen('x', a => ai_gen('y', note)), ai_gen('z', note) FROM people",
            "Project(AiMap[ai_gen, ai_gen](AiMap[ai_gen](people)))",
        ),
    ],
)
def test_merged(database: Database, session: Session, sql: str, after: str) -> None:
    """Neighbours become one operator, except where one reads the other's answer or is guarded by it."""
    assert planned(database, sql, merge_operators)[1] == after
    assert "merge_operators" in fired(session, sql)
    on, off = ask_both(session, sql)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ai_gen('x', a => ai_gen('y', note)) FROM people",
        "SELECT CASE WHEN ai_filter('x', note) THEN ai_gen('y', note) END FROM people",
        "SELECT coalesce(ai_gen('x', note), ai_gen('y', name)) FROM people",
        "SELECT id FROM people WHERE ai_filter('x', note) AND ai_filter('y', note)",
    ],
)
def test_apart(database: Database, session: Session, sql: str) -> None:
    """An operator that needs the answer below it, as an argument, a guard or a filter, stays above it."""
    assert not planned(database, sql, merge_operators)[2]
    ask_both(session, sql)
