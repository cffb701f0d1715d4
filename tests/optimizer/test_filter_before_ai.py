"""Predicates over one operator's answers move below the next operator."""

from flightllm.optimizer.filter_before_ai import filter_before_ai
from flightllm.optimizer.merge_operators import merge_operators
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, fired, planned

DERIVED = """SELECT id, h FROM
(SELECT id, ai_filter('x', note) AS g, ai_gen('y', name) AS h FROM people) WHERE {}"""


def test_moved(database: Database, session: Session) -> None:
    """The second operator asks only for rows that pass a predicate on the first one's answers."""
    sql = DERIVED.format("g")
    before, after, _ = planned(database, sql, filter_before_ai)
    assert before == "Project(Filter(Project(AiMap[ai_gen](AiMap[ai_filter](people)))))"
    assert after == "Project(Project(AiMap[ai_gen](Filter(AiMap[ai_filter](people)))))"
    on, off = ask_both(session, sql)
    assert on.calls < off.calls
    assert "filter_before_ai" in fired(session, sql)


def test_what_reads_the_answer_stays(database: Database, session: Session) -> None:
    """A predicate is not moved below the operator whose answer it reads, and a volatile one not at all."""
    for condition in ("h > ''", "random() < 2", "h > '' OR g"):
        sql = DERIVED.format(condition)
        after = planned(database, sql, filter_before_ai)[1]
        assert after.index("Filter(") < after.index("AiMap[ai_gen]")
        ask_both(session, sql)


def test_nothing_to_do(database: Database) -> None:
    """A plan that is as it should be stays the same object, so the driver comes to rest."""
    before, after, fired_rules = planned(
        database,
        "SELECT id FROM people WHERE ai_filter('x', note) AND score > 2 AND ai_filter('y', name)",
        filter_before_ai,
    )
    assert before == after == "Project(Project(Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](Filter(people)))))))"
    assert not fired_rules


def test_split(database: Database, session: Session) -> None:
    """An operator of several calls asks what a predicate reads first, and the rest for the rows that pass."""
    inner = "SELECT id, ai_gen('x', note) AS g, ai_filter('y', note) AS f, ai_gen('z', note) AS h FROM people"
    sql = f"SELECT * FROM ({inner}) WHERE f AND h > 'b'"
    assert planned(database, sql, merge_operators)[1].count("AiMap") == 1
    after = planned(database, sql, merge_operators, filter_before_ai)[1]
    assert after.count("Filter(AiMap[") == 2
    assert "Filter(AiMap[ai_filter](people))" in after
    on, off = ask_both(session, sql)
    assert on.calls < off.calls
