"""Two lists of one value are no longer one list where a NULL would change the result."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("score IN (1) AND score IN (2)", 0),
        ("NOT (score IN (1) AND score IN (2))", 7),
        ("(score IN (1) AND score IN (2)) IS NULL", 2),
        ("NOT ((score = 1 OR score = 2) AND score IN (4))", 7),
        ("score NOT IN (1) OR score NOT IN (2)", 7),
        ("score IN (1, 2) AND score NOT IN (1, NULL)", 0),
        ("score IN (1) OR score IN (2)", 2),
    ],
)
def test_null_stays(session: Session, condition: str, found: int) -> None:
    """The condition is NULL for a NULL, in a query, in DELETE and in a view."""
    assert rows(session, f"SELECT count(*) AS n FROM people WHERE {condition}") == [{"n": found}]
    session.update("CREATE OR REPLACE TABLE kept AS SELECT * FROM people")
    session.update(f"CREATE OR REPLACE VIEW seen AS SELECT id FROM kept WHERE {condition}")
    assert len(rows(session, "SELECT * FROM seen")) == found
    assert session.update(f"DELETE FROM kept WHERE {condition}") == found


def test_one_call_a_text(session: Session) -> None:
    """A call in two lists is made once for each text."""
    call = "ai_gen('Is it good?', note)"
    found = ask(session, f"SELECT id FROM people WHERE NOT ({call} IN ('a') AND {call} IN ('b'))")
    assert found.calls <= 4  # different notes that are not NULL
