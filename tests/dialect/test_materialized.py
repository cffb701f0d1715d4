"""MATERIALIZED in WITH has no effect."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize("word", ["MATERIALIZED", "NOT MATERIALIZED", "materialized /* once */"])
def test_rows(session: Session, word: str) -> None:
    """The query has the rows that it has without the word, also in a view."""
    sql = f"WITH q (n) AS {word} (SELECT id FROM people), r AS {word} (SELECT n FROM q) SELECT max(n) AS n FROM r"
    assert rows(session, sql) == [{"n": 9}]
    session.update(f"CREATE OR REPLACE VIEW seen AS {sql}")
    assert rows(session, "SELECT n FROM seen") == [{"n": 9}]


def test_names(session: Session) -> None:
    """A table and a column can have the name."""
    assert rows(session, "WITH materialized AS (SELECT 1 AS materialized) SELECT materialized FROM materialized") == [
        {"materialized": 1}
    ]
