"""The name of a table as a value is a struct of its columns."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask

ANN = {"id": 1, "name": "Ann"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT r FROM (SELECT id, name FROM people WHERE id = 1) AS r", {"r": ANN}),
        ("SELECT r AS x FROM (SELECT id, name FROM people WHERE id = 1) AS r WHERE r IS NOT NULL", {"x": ANN}),
        ("SELECT count(r) AS n FROM people AS r", {"n": 9}),
        ("SELECT count(*) AS people FROM people ORDER BY people", {"people": 9}),
        ("SELECT id AS people FROM people WHERE id = 1 GROUP BY people", {"people": 1}),
        ("SELECT r FROM (SELECT 5 AS r) AS r", {"r": 5}),
        ("WITH r AS (SELECT 1 AS id, 'Ann' AS name) SELECT array_agg(r) AS l FROM r", {"l": [ANN]}),
        ("SELECT (SELECT r) AS x FROM (SELECT 1 AS id, 'Ann' AS name) AS r", {"x": ANN}),
    ],
)
@pytest.mark.parametrize("dialect", ["default", "duckdb"])
def test_rows(session: Session, sql: str, expected: object, dialect: str) -> None:
    """A column or an alias of the same name comes first."""
    assert ask(session, sql, dialect=dialect).rows == [expected]
