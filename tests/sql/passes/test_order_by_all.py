"""ORDER BY ALL orders by each column of the result."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize("dialect", ["default", "duckdb", "spark"])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM (VALUES (2, 'a'), (1, 'b'), (1, 'a')) AS t(x, y) ORDER BY ALL", [(1, "a"), (1, "b"), (2, "a")]),
        ("SELECT *, 0 AS z FROM (VALUES (2), (1)) AS t(x) ORDER BY ALL DESC", [(2, 0), (1, 0)]),
        ("SELECT 2 AS x, 1 AS y UNION ALL SELECT 1, 5 ORDER BY ALL", [(1, 5), (2, 1)]),
    ],
)
def test_order(session: Session, sql: str, expected: object, dialect: str) -> None:
    """The columns of a star count, too."""
    assert [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows] == expected


def test_column_of_the_name(session: Session) -> None:
    """A column with the name `all` is a key."""
    rows = ask(session, 'SELECT * FROM (VALUES (1, 2), (2, 1)) AS t(x, "all") ORDER BY "all"').rows
    assert [row["x"] for row in rows] == [2, 1]
