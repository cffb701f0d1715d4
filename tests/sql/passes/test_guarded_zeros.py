"""A condition that divides by zero is an error, unless another condition keeps the zero away."""

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, rows, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a session with a table of doubles, a view of it, and one without the zeros."""
    session = small_database(tmp_path_factory.mktemp("zeros")).session()
    session.update("CREATE TABLE parts (id int, g double precision, f double precision)")
    session.update("INSERT INTO parts VALUES (1, 1, 0), (2, 1, 2), (3, 1, 4), (4, NULL, NULL)")
    session.update("CREATE VIEW every_part AS WITH v AS (SELECT * FROM parts) SELECT * FROM v")
    session.update("CREATE VIEW whole AS SELECT * FROM parts WHERE f <> 0")
    return session


@pytest.mark.parametrize("dialect", ["", "postgres"])
@pytest.mark.parametrize(
    "rest",
    [
        "parts WHERE g / f > 0.3",
        "parts WHERE id < 9 AND g / f > 0.3",
        "parts WHERE id > 3 OR g / f > 0.3",
        "parts WHERE NOT (g / f > 0.3)",
        "parts JOIN people USING (id) WHERE g / f > 0.3",
        "parts WHERE (g / f > 0.3 AND id < 9) OR id = 5",
        "(VALUES (CAST(1 AS double precision), CAST(0 AS double precision))) AS v(g, f) WHERE g / f > 0.3",
        "(SELECT id AS n, g, f FROM parts) AS v WHERE g / f > 0.3",
        "parts GROUP BY id HAVING sum(g) / sum(f) > 0.3",
        "every_part WHERE g / f > 0.3",
        "parts WHERE g / f > 0.3 AND random() < 2",
        "parts WHERE ai_if('{id}?', id => id) AND g / f > 0.3",
    ],
)
def test_zeros(session: Session, dialect: str, rest: str) -> None:
    """A zero is an error, as in PostgreSQL, where no other condition drops its row."""
    with pytest.raises(FlightLLMError, match="division by zero: write nullif"):
        ask(session, f"SELECT 1 AS v FROM {rest}", **({"flightllm.dialect": dialect} if dialect else {}))


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        ("parts WHERE f <> 0 AND g / f > 0.3", [2]),
        ("parts WHERE g / f > 0.3 AND f > 0", [2]),
        ("parts WHERE f = 0 OR g / f > 0.3", [1, 2]),
        ("parts WHERE (id = 4 OR (f > 1 AND g / f > 0.3)) AND id < 9", [2, 4]),
        ("parts WHERE f <> 0 AND (g / f > 0.3 OR 1 / f = 0.25)", [2, 3]),
        ("parts WHERE f <> 0 AND g / f > 0.1 AND 1 / f > 0.3", [2]),
        ("parts WHERE CASE WHEN f <> 0 THEN g / f > 0.3 ELSE false END", [2]),
        ("parts WHERE id IN (SELECT id FROM whole) AND g / f > 0.3", [2]),
        ("(SELECT * FROM parts WHERE f <> 0) AS v WHERE g / f > 0.3", [2]),
        ("whole WHERE g / f > 0.3", [2]),
        ("parts WHERE g / nullif(f, 0) > 0.3", [2]),
        ("parts WHERE (f = 0 OR random() < 2) AND f > 0 AND g / f > 0.3", [2]),
        ("parts WHERE random() > 2 OR g / f > 0.3", [2]),
        ("parts GROUP BY id HAVING sum(f) > 0 AND sum(g) / sum(f) > 0.3", [2]),
        ("parts WHERE f > 0 GROUP BY id, g, f HAVING g / f > 0.3", [2]),
    ],
)
def test_guards(session: Session, rest: str, wanted: list[int]) -> None:
    """A condition beside, around or below a division keeps the zeros from it."""
    assert [row["id"] for row in rows(session, f"SELECT id FROM {rest} ORDER BY id")] == wanted


def test_with(session: Session) -> None:
    """A query of WITH counts as its own text."""
    sql = "WITH v AS (SELECT * FROM parts{}) SELECT id FROM v WHERE g / f > 0.3"
    assert rows(session, sql.format(" WHERE f > 0")) == [{"id": 2}]
    with pytest.raises(FlightLLMError, match="division by zero"):
        rows(session, sql.format(""))
