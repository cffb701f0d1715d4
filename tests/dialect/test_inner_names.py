"""The columns of queries in FROM and WITH have the names of the text in duckdb."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Open the small tables."""
    return small_database(tmp_path_factory.mktemp("names")).session()


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("WITH c AS (SELECT upper(name), id * 2, 1 FROM people) SELECT * FROM c", ["upper(name)", "id * 2", "1"]),
        ("SELECT * FROM (SELECT row_number() OVER (ORDER BY id) FROM people)", ["row_number() OVER (ORDER BY id)"]),
        ("SELECT * FROM (SELECT id + 1, name FROM people UNION ALL SELECT 1, 'x')", ["id + 1", "name"]),
        ("SELECT * FROM (SELECT name || 'x' AS y, id::VARCHAR AS z FROM people)", ["y", "z"]),
    ],
)
def test_names(session: Session, sql: str, names: list[str]) -> None:
    """No name is that of a function which the server writes."""
    assert ask(session, sql, dialect="duckdb").table.column_names == names
