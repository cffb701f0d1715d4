"""What the plan shows to have no rows is asked nothing."""

import pytest

from flightllm.optimizer.drop_empty import drop_empty
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask_both, planned


@pytest.mark.parametrize(
    ("sql", "after"),
    [
        pytest.param(
            "SELECT * FROM (SELECT id, 's' AS ty FROM people WHERE ai_filter('p', note) "
            "UNION ALL SELECT id, 'w' FROM people) WHERE ty = 'w'",
            "Filter(Project(people))",
            id="input of a union",
        ),
        pytest.param(
            "SELECT id FROM people WHERE 'a' = 'b' AND ai_filter('x', note)",
            None,
            id="constants",
        ),
        pytest.param(
            "SELECT id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) "
            "JOIN (SELECT name FROM people WHERE 1 = 2) ON g = name",
            None,
            id="side of a join",
        ),
    ],
)
def test_no_call(database: Database, session: Session, sql: str, after: str | None) -> None:
    """No call is made, and the rows are the same."""
    assert after in {None, planned(database, sql, drop_empty)[1]}
    on, _ = ask_both(session, sql)
    assert on.calls == 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT p.id, g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p LEFT JOIN nothing ON g = name",
        "SELECT g FROM (SELECT id, ai_gen('x', note) AS g FROM people) p FULL JOIN nothing ON g = name",
        "SELECT id FROM people WHERE ai_filter('x', note) AND (1 = 2 OR score > 1)",
    ],
)
def test_rows_that_count(database: Database, session: Session, sql: str) -> None:
    """Rows that are in the result are asked about, also where another input has none."""
    assert planned(database, sql, drop_empty)[2] == ()
    on, off = ask_both(session, sql)
    assert 0 < on.calls <= off.calls
