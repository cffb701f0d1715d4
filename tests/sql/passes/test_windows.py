"""A window that names another one has its clauses."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask, rows

QUERY = (
    "SELECT id, count(*) OVER {} AS n FROM people WHERE id IN (1, 7, 8, 2) WINDOW w AS (PARTITION BY name) ORDER BY id"
)


@pytest.mark.parametrize(
    ("over", "counts"),
    [
        ("w", [3, 1, 3, 3]),
        ("(w)", [3, 1, 3, 3]),
        ("(w ORDER BY id)", [1, 1, 2, 3]),
        ("(w ORDER BY id ROWS 1 PRECEDING)", [1, 1, 2, 2]),
    ],
)
def test_named_windows(session: Session, over: str, counts: list[int]) -> None:
    """The clauses of the named window hold, with those in the parentheses."""
    assert [row["n"] for row in rows(session, QUERY.format(over))] == counts


def test_two_functions_without_alias(session: Session) -> None:
    """Two functions over one window are two columns with the names that the client wrote."""
    table = ask(session, "SELECT sum(id) OVER w, count(*) OVER w FROM people WINDOW w AS (PARTITION BY flag)").table
    assert table.schema.names == ["sum(id) OVER w", "count(*) OVER w"]
    assert table.num_rows == 9


def test_views_and_changes(session: Session) -> None:
    """A view and INSERT read named windows, too."""
    session.update(f"CREATE OR REPLACE VIEW numbered AS {QUERY.format('(w ORDER BY id)')}")
    session.update("CREATE OR REPLACE TABLE kept AS SELECT * FROM numbered")
    session.update(f"INSERT INTO kept {QUERY.format('(w ORDER BY id DESC)')}")
    assert rows(session, "SELECT sum(n) AS n FROM kept WHERE id = 1") == [{"n": 4}]


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ("(w PARTITION BY id)", "PARTITION BY replaces that of the window w at 1:27"),
        ("(v ORDER BY id)", "no window v at 1:27"),
        ("(ORDER BY id ROWS -1 PRECEDING)", "negative size"),
        ("(ORDER BY day RANGE INTERVAL '-1 day' PRECEDING)", "negative size"),
    ],
)
def test_refused(session: Session, over: str, said: str) -> None:
    """What PostgreSQL refuses is refused with its place."""
    with pytest.raises(SqlError, match=said):
        rows(session, QUERY.format(over))
