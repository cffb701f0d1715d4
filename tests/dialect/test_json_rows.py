"""The rows of JSON texts in postgres: an alias means the row only where the function is in scope."""

from collections.abc import Iterator

import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table of one list."""
    database = open_database(tmp_path_factory.mktemp("rows"))
    session = database.session()
    session.update("CREATE TABLE d (id INT, j JSONB)")
    session.update("""INSERT INTO d VALUES (1, '["a"]')""")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT k AS v FROM d, jsonb_array_elements_text(j) AS k", ["a"]),
        ("SELECT max(k) AS v FROM d, jsonb_array_elements_text(j) AS k WHERE k <> 'b'", ["a"]),
        ("SELECT (SELECT max(k) FROM (SELECT 5 AS k) AS s) AS v FROM d, jsonb_array_elements_text(j) AS k", [5]),
        ("SELECT k AS v FROM (SELECT 5 AS k) AS k UNION ALL SELECT 1 FROM d, jsonb_array_elements_text(j) AS k", None),
        ("SELECT (SELECT k) AS v FROM d, jsonb_array_elements_text(j) AS k", ["a"]),
        (
            "SELECT k AS v FROM (SELECT 5 AS k) AS s WHERE EXISTS (SELECT 1 FROM d, jsonb_array_elements_text(j) AS k)",
            [5],
        ),
    ],
)
def test_aliases(session: Session, sql: str, wanted: list[object] | None) -> None:
    """A column of another query keeps its name."""
    found = [row["v"] for row in ask(session, sql, dialect="postgres").rows]
    assert found == wanted if wanted is not None else len(found) == 2
