"""A join keeps its condition beside a column that is constant."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows

EMPTY = "(SELECT lower('') AS c FROM likes WHERE weight = 1) t"


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("(t.c IS NULL) = (p.note IS NULL)", 7),
        ("(t.c IS NOT NULL) = (p.note IS NULL)", 2),
        ("CASE WHEN t.c IS NULL THEN 1 ELSE 2 END = p.id", 1),
        ("t.c = p.note AND (t.c IS NULL) = (p.note IS NULL)", 1),
        ("t.c IS NOT DISTINCT FROM p.note", 1),
        ("t.c IS DISTINCT FROM p.note", 8),
    ],
)
def test_a_column_that_is_never_null(session: Session, condition: str, wanted: int) -> None:
    """Both forms of a join have the rows that meet the condition, and so has a change of rows."""
    assert rows(session, f"SELECT count(*) AS n FROM {EMPTY} JOIN people p ON {condition}") == [{"n": wanted}]
    assert rows(session, f"SELECT count(*) AS n FROM {EMPTY}, people p WHERE {condition}") == [{"n": wanted}]
    session.update("CREATE OR REPLACE TABLE kept AS SELECT id, note FROM people")
    assert session.update(f"UPDATE kept p SET id = 0 FROM {EMPTY} WHERE {condition}") == wanted
