"""The first rows of a sort are asked about first, so that asking can stop."""

import pytest

from flightllm.optimizer.rules import RULES
from flightllm.optimizer.sort_before_ai import sort_before_ai
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, in_order, planned


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        pytest.param(
            "SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id LIMIT 1",
            "Fetch(Project(Filter(AiMap[ai_filter](Sort(people)))))",
            id="filter",
        ),
        pytest.param(
            "SELECT id + 1 AS k FROM people WHERE ai_filter('x', note) AND ai_filter('y', name) "
            "ORDER BY k DESC LIMIT 1 OFFSET 1",
            "Fetch(Project(Filter(AiMap[ai_filter](Filter(AiMap[ai_filter](Sort(people)))))))",
            id="computed key, two filters, offset",
        ),
        pytest.param(
            "SELECT id, ai_gen('g', note) FROM people WHERE ai_filter('x', note) ORDER BY score, id LIMIT 2",
            None,
            id="answers",
        ),
        pytest.param(
            "SELECT id, thing FROM (SELECT * FROM people WHERE ai_filter('x', note)) JOIN likes ON id = person_id "
            "ORDER BY id, thing LIMIT 2",
            None,
            id="above a join",
        ),
    ],
)
def test_moved(database: Database, session: Session, sql: str, after: str | None) -> None:
    """The sort is below the filter, and the rows and their order are the same."""
    assert after in {None, planned(database, sql, sort_before_ai)[1]}
    assert "sort_before_ai" in planned(database, sql, *RULES)[2]
    on, off = ask_both(session, sql)
    assert in_order(on.table) == in_order(off.table)
    assert on.calls <= off.calls


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id", id="no limit"),
        pytest.param(
            "SELECT id FROM people WHERE ai_filter('x', note) ORDER BY ai_score('y', note), id LIMIT 2",
            id="key is an answer",
        ),
        pytest.param("SELECT id, ai_gen('x', note) FROM people ORDER BY id LIMIT 2", id="nothing is filtered"),
        pytest.param(
            "SELECT count(*) FROM (SELECT id FROM people WHERE ai_filter('x', note) ORDER BY id LIMIT 2)",
            id="the order is lost above",
        ),
    ],
)
def test_stays(database: Database, session: Session, sql: str) -> None:
    """A sort stays where its keys read answers, where no limit or filter is, or where the order would be lost."""
    before, after, fired_rules = planned(database, sql, sort_before_ai)
    assert before == after
    assert not fired_rules
    on, off = ask_both(session, sql)
    assert in_order(on.table) == in_order(off.table)


def test_stops(database: Database, session: Session) -> None:
    """A limit over many rows leaves most of them unasked."""
    sql = "SELECT review_id FROM reviews WHERE ai_filter('x', review_content) ORDER BY review_date, review_id LIMIT 5"
    on, off = ask_both(session, sql)
    assert in_order(on.table) == in_order(off.table)
    assert on.calls < off.calls / 4
    assert "sort_before_ai" in planned(database, sql, *RULES)[2]
