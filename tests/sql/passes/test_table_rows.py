"""The name of a table as a value is a struct of its columns."""

import pytest

from flightllm.errors import UnsupportedError
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


_JOINED = "FROM people AS p LEFT JOIN (SELECT id, name FROM people WHERE id = 1) AS big ON big.id = p.id"


@pytest.mark.parametrize("dialect", ["default", "postgres"])
@pytest.mark.parametrize("sql", [f"SELECT count(big) {_JOINED}", f"SELECT p.id {_JOINED} WHERE big IS NULL"])
def test_missing_rows_are_refused(session: Session, sql: str, dialect: str) -> None:
    """A row that an outer join lacks is NULL in PostgreSQL: the error names a column to read."""
    with pytest.raises(UnsupportedError, match=r"write its column, as in count\(big\.id\)"):
        ask(session, sql, dialect=dialect)
    (row,) = ask(session, f"SELECT count(p) AS n, count(big.id) AS found {_JOINED}", dialect=dialect).rows
    assert row == {"n": 9, "found": 1}
    case = "CASE WHEN big.id IS NOT NULL THEN named_struct('id', big.id) END"
    assert ask(session, f"SELECT count({case}) AS n {_JOINED}", dialect=dialect).rows == [{"n": 1}]


def test_missing_rows_of_duckdb(session: Session) -> None:
    """A row that an outer join lacks has NULL in each column, as in DuckDB."""
    assert ask(session, f"SELECT count(big) AS n {_JOINED}", dialect="duckdb").rows == [{"n": 9}]
