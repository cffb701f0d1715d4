"""The star of a struct is its fields, in each spelling and wherever the struct comes from."""

from collections.abc import Iterator, Sequence

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table and a view of structs and answers."""
    database = small_database(tmp_path_factory.mktemp("stars"))
    session = database.session()
    session.update("CREATE TABLE st AS SELECT id, named_struct('city', name, 'n', id) AS r FROM people WHERE id < 3")
    session.update("CREATE VIEW seen AS SELECT id, ai_extract(note, ['city', 'name']) AS e FROM people")
    yield session
    database.close()


def _rows(session: Session, sql: str, dialect: str) -> list[dict[str, object]]:
    return ask(session, sql, dialect=dialect).rows


_FIELDS = [{"city": "Ann", "n": 1}, {"city": "Bob", "n": 2}]


@pytest.mark.parametrize(
    ("dialect", "sql", "rows"),
    [
        *((dialect, "SELECT r.* FROM st ORDER BY id", _FIELDS) for dialect in ("default", "duckdb", "databricks")),
        ("bigquery", "SELECT r.* FROM st ORDER BY st.id", _FIELDS),
        ("bigquery", "SELECT r.* EXCEPT (n) FROM st ORDER BY id", [{"city": "Ann"}, {"city": "Bob"}]),
        ("bigquery", "SELECT q.r.* FROM (SELECT * FROM st) AS q ORDER BY id", _FIELDS),
        (
            "databricks",
            "WITH c AS (SELECT r.* FROM st) SELECT city FROM c ORDER BY n",
            [{"city": "Ann"}, {"city": "Bob"}],
        ),
        ("default", "SELECT a.r.*, b.id AS other FROM st a JOIN st b ON a.id = b.id + 1", [{**_FIELDS[1], "other": 1}]),
        ("default", "SELECT (r).* FROM st ORDER BY id", _FIELDS),
        ("postgres", "SELECT (st.r).* FROM st ORDER BY id", _FIELDS),
        ("default", "SELECT r.* FROM st AS r WHERE id = 1", [{"id": 1, "r": _FIELDS[0]}]),
        ("default", "SELECT st.* FROM st WHERE id = 1", [{"id": 1, "r": _FIELDS[0]}]),
    ],
)
def test_fields(session: Session, dialect: str, sql: str, rows: Sequence[dict[str, object]]) -> None:
    """The fields are columns by their names; a table of the same name has its own star."""
    assert _rows(session, sql, dialect) == list(rows)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT e.* FROM seen ORDER BY id",
        "SELECT q.e.* FROM (SELECT id, ai_extract(note, ['city', 'name']) AS e FROM people) AS q ORDER BY id",
    ],
)
def test_fields_of_answers(session: Session, sql: str) -> None:
    """The star of an answer is its fields, and costs no second call."""
    direct = "SELECT e['city'] AS city, e['name'] AS name FROM seen ORDER BY id"
    ran = ask(session, sql)
    assert ran.rows == ask(session, direct).rows


def test_refused(session: Session) -> None:
    """A star with new names says how to write them."""
    with pytest.raises(UnsupportedError, match="name the fields"):
        ask(session, "SELECT r.* RENAME (n AS m) FROM st")
