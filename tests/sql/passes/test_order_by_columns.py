"""An expression in ORDER BY reads the columns of the tables, and a name alone those of the result."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("SELECT -id AS id FROM people WHERE id < 4 ORDER BY id", [-3, -2, -1]),
        ("SELECT -id AS id FROM people WHERE id < 4 ORDER BY id + 0", [-1, -2, -3]),
        ("SELECT -id AS id FROM people ORDER BY people.id LIMIT 2", [-1, -2]),
        ("SELECT -id AS id FROM people WHERE id < 4 ORDER BY name IS NULL, abs(id) DESC", [-2, -1, -3]),
        ("SELECT * FROM (SELECT -id AS id FROM people ORDER BY id + 0 LIMIT 2) q ORDER BY 1", [-2, -1]),
        ("WITH q AS (SELECT -id AS id FROM people ORDER BY id * 2 LIMIT 1) SELECT id FROM q", [-1]),
        ("SELECT DISTINCT -id AS id FROM people WHERE id < 3 ORDER BY -id", [-2, -1]),
        ("SELECT id + 1 AS n, id FROM people WHERE id < 3 ORDER BY n + 0 DESC", [2, 1]),
    ],
)
def test_order(session: Session, sql: str, ids: list[int]) -> None:
    """The rows come in PostgreSQL's order."""
    assert [row["id"] for row in rows(session, sql)] == ids


def test_names_and_calls_stay(session: Session) -> None:
    """The columns keep the names that the client wrote, and a call is made once for each text."""
    sql = "SELECT -id AS id, id + 1, upper('a'), ai_gen('Is it good?', note) FROM people WHERE id < 3 ORDER BY id + 0"
    found = ask(session, sql)
    assert found.table.schema.names == ["id", "id + 1", "upper('a')", "ai_gen('Is it good?', note)"]
    assert found.calls == 1
    assert found.table["id"].to_pylist() == [-1, -2]


@pytest.mark.parametrize(
    "sql",
    ["SELECT *, -id AS id FROM people ORDER BY people.id + 0", "SELECT DISTINCT -id AS id FROM people ORDER BY id + 0"],
)
def test_refused(session: Session, sql: str) -> None:
    """A star and DISTINCT have no such order."""
    with pytest.raises(FlightLLMError, match=r"ORDER BY at 1:\d+"):
        rows(session, sql)
