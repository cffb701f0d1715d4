"""ORDER BY of a path takes the SELECT that it belongs to."""

from collections.abc import Iterator

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, open_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table of JSON whose numbers have another order as texts."""
    database = open_database(tmp_path_factory.mktemp("paths"))
    session = database.session()
    session.update("CREATE TABLE d (id INT, v VARIANT)")
    session.update("""INSERT INTO d VALUES (1, '{"n": 10}'), (2, '{"n": 9}')""")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT v:n AS n FROM d ORDER BY n", ["9", "10"]),
        ("SELECT id AS n FROM d WHERE id > 5 UNION ALL (SELECT v:n AS k FROM d ORDER BY k LIMIT 1)", ["9"]),
        ("SELECT v:n AS n FROM (SELECT v, 3 - id AS n FROM d UNION ALL SELECT v, 0 FROM d ORDER BY n LIMIT 1)", None),
        ("SELECT id AS n FROM d UNION ALL SELECT id FROM d ORDER BY n LIMIT 1", [1]),
    ],
)
def test_orders(session: Session, sql: str, wanted: list[object] | None) -> None:
    """A name in ORDER BY of a set operation is no path of the query around it."""
    found = [row["n"] for row in ask(session, sql, dialect="snowflake").rows]
    assert found == wanted if wanted is not None else len(found) == 1


@pytest.mark.parametrize("key", ["n", "1", "m"])
def test_set_operations(session: Session, key: str) -> None:
    """The paths of a set operation have no order without a type."""
    sql = f"SELECT v:n AS n, v:n AS m FROM d UNION ALL SELECT v:n, v:n FROM d ORDER BY {key}"
    with pytest.raises(UnsupportedError, match="d:price::NUMBER"):
        ask(session, sql, dialect="snowflake")
