"""Projections rise above operators, so that these become neighbours."""

from flightllm.optimizer.merge_operators import merge_operators
from flightllm.optimizer.project_after_ai import project_after_ai
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned


def test_moved(database: Database, session: Session) -> None:
    """Operators of nested queries meet, whatever the columns between them are called and computed from."""
    sql = "SELECT u, g, ai_gen('y', u) FROM (SELECT upper(name) AS u, ai_gen('x', note) AS g FROM people)"
    before, after, _ = planned(database, sql, project_after_ai)
    assert before == "Project(AiMap[ai_gen](Project(AiMap[ai_gen](people))))"
    assert after == "Project(Project(AiMap[ai_gen](AiMap[ai_gen](people))))"
    assert (
        planned(database, sql, project_after_ai, merge_operators)[1]
        == "Project(Project(AiMap[ai_gen, ai_gen](people)))"
    )
    ask_both(session, sql)


def test_stays(database: Database, session: Session) -> None:
    """A projection stays where no operator is below it, where it has a window, and where its random value is read."""
    for inner in ("upper(name) AS u", "ai_gen('x', note) AS g, rank() OVER (ORDER BY id) AS u"):
        sql = f"SELECT ai_gen('y', u) FROM (SELECT {inner} FROM people)"
        assert not planned(database, sql, project_after_ai)[2]
        ask_both(session, sql)
    sql = "SELECT ai_gen('y', u) FROM (SELECT ai_gen('x', note) AS g, random() AS u FROM people) WHERE g > ''"
    assert not planned(database, sql, project_after_ai)[2]
