"""Rows are compared column by column, and a NULL makes a comparison NULL."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("(1, 2) = (1, 2)", True),
        ("(1, NULL) = (1, 2)", None),
        ("(1, NULL) = (2, 2)", False),
        ("(1, NULL) <> (2, 2)", True),
        ("(1, 2) < (1, 3)", True),
        ("(1, NULL) < (1, 3)", None),
        ("(1, NULL) < (2, 3)", True),
        ("ROW(1, 2, 3) >= ROW(1, 2, 3)", True),
        ("(1, 2) IN ((1, 1), (1, 2))", True),
        ("(1, 2) NOT IN ((1, NULL))", None),
        ("(1, NULL) IS NULL", False),
        ("(1, 2) IS DISTINCT FROM (1, NULL)", True),
        ("(1, 2) BETWEEN (1, 1) AND (2, 0) AND true", True),
    ],
)
def test_values(session: Session, sql: str, value: bool | None) -> None:
    """Each comparison has PostgreSQL's value."""
    assert rows(session, f"SELECT {sql} AS found") == [{"found": value}]


def test_changes_of_rows(session: Session) -> None:
    """UPDATE and DELETE compare rows, too."""
    session.update("CREATE OR REPLACE TABLE c AS SELECT id, score FROM people")
    session.update("UPDATE c SET score = 9 WHERE (id, score) IN ((1, 3.5), (2, 1.0), (3, 7))")
    assert session.update("DELETE FROM c WHERE (id, score) >= (7, NULL)") == 2
    assert rows(session, "SELECT count(*) AS n FROM c WHERE score = 9") == [{"n": 2}]


@pytest.mark.parametrize("comparison", ["<> ANY", "= ALL", "!= SOME"])
def test_rows_that_differ_from_those_of_a_subquery_are_refused(session: Session, comparison: str) -> None:
    """The error says where, and what to write."""
    with pytest.raises(UnsupportedError, match=r"with rows at 1:9 .*EXISTS"):
        rows(session, f"SELECT (id, 1) {comparison} (SELECT id, 2 FROM people) AS r FROM people")
