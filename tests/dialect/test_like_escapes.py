"""LIKE with an escape character of its own, as the SQL standard reads it."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a table of texts."""
    database = small_database(tmp_path_factory.mktemp("like"))
    session = database.session()
    session.update("CREATE TABLE texts AS SELECT * FROM (VALUES ('a_b'), ('axb'), ('50%'), ('A!\\'), (NULL)) AS v(s)")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("s LIKE '%!_%' ESCAPE '!'", ["a_b"]),
        ("s NOT LIKE '%!_%' ESCAPE '!'", ["50%", "A!\\", "axb"]),
        ("s ILIKE 'a!!\\' ESCAPE '!' OR s LIKE '50/%' ESCAPE '/'", ["50%", "A!\\"]),
        ("s LIKE '%!_%' {escape '!'}", ["a_b"]),
        ("s LIKE '%\\' ESCAPE ''", ["A!\\"]),
        ("s LIKE '%' || '.\\' || '%' ESCAPE '.' AND s IS NOT NULL", ["A!\\"]),
        ("s LIKE '%' || '!_' || '%' ESCAPE '!'", ["a_b"]),
        ("s LIKE concat('%!', '!', substr(s, 3)) ESCAPE '!'", ["A!\\"]),
        ("s LIKE substr(s, 1, 2) || '\\' ESCAPE ''", ["A!\\"]),
        ("s LIKE '%\\_%' ESCAPE '\\'", ["a_b"]),
        ("s LIKE 'axb' ESCAPE 'x'", []),
        ("s LIKE 'axxb' ESCAPE 'x'", ["axb"]),
    ],
)
def test_rows(session: Session, condition: str, found: list[str]) -> None:
    """A condition keeps the rows that match, for a literal pattern and for one that is computed."""
    assert [row["s"] for row in ask(session, f"SELECT s FROM texts WHERE {condition} ORDER BY s").rows] == found


def test_parameters(session: Session) -> None:
    """A pattern can be a parameter, as clients write it that escape what a user typed."""
    sql = "SELECT s FROM texts WHERE s LIKE '%' || ? || '%' ESCAPE '/'"
    assert ask(session, sql, pa.record_batch({"p": ["/_"]})).rows == [{"s": "a_b"}]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("s LIKE 'a' ESCAPE '!!'", "ESCAPE at 1:38: write one character as a text literal"),
        ("s LIKE 'a' ESCAPE s", "write one character as a text literal"),
        ("s LIKE 'a!!!' ESCAPE '!'", "its pattern ends in !: write !! to mean itself"),
    ],
)
def test_refused(session: Session, condition: str, said: str) -> None:
    """An escape that is not one character, or ends the pattern, is named."""
    with pytest.raises(SqlError, match=said):
        session.execute(f"SELECT s FROM texts WHERE {condition}")


def test_other_escapes(session: Session) -> None:
    """A column with the name of the word stays a column."""
    (row,) = ask(session, "SELECT escape FROM (SELECT 1 AS escape) AS q WHERE 'a' LIKE 'a' AND escape = 1").rows
    assert row == {"escape": 1}
