"""Columns for which DataFusion has the same name can stand side by side."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from flightllm.sql.passes.names_apart import names_apart
from tests.databases import ask, rows

TENS = "(VALUES (2), (10)) v(x)"


@pytest.mark.parametrize(
    ("sql", "names", "wanted"),
    [
        (f"SELECT CAST(x AS text) FROM {TENS} ORDER BY x", ["CAST(x AS text)"], [["10"], ["2"]]),
        (f"SELECT x::text, 1 FROM {TENS} ORDER BY x LIMIT 1", ["x::text", "1"], [["10", 1]]),
        (f"SELECT TRY_CAST(x AS text) FROM {TENS} GROUP BY x ORDER BY x", ["TRY_CAST(x AS text)"], [["10"], ["2"]]),
        (f"SELECT CAST(v.x AS text) FROM {TENS} ORDER BY v.x", ["CAST(v.x AS text)"], [["2"], ["10"]]),
        ("SELECT count(*), (SELECT count(*) FROM likes) FROM people", None, [[9, 8]]),
        ("SELECT id != 1, id <> 1 FROM people WHERE id = 2", ["id != 1", "id <> 1"], [[True, True]]),
        ("SELECT mod(id, 2), id % 2 FROM people WHERE id = 3", ["mod(id, 2)", "id % 2"], [[1, 1]]),
        ("SELECT (id), id FROM people WHERE id = 3", ["(id)", "id"], [[3, 3]]),
        ("SELECT substring(name FROM 2), substr(name, 2) FROM people WHERE id = 1", None, [["nn", "nn"]]),
        ("SELECT * FROM (SELECT id != 1, id <> 1 FROM people WHERE id = 1) q", None, [[False, False]]),
    ],
)
def test_rows(session: Session, sql: str, names: list[str] | None, wanted: list[list[object]]) -> None:
    """The rows are those of PostgreSQL, under the names that the client wrote."""
    table = ask(session, sql).table
    assert [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)] == wanted
    assert names is None or table.schema.names == names


def test_beside_a_call(session: Session) -> None:
    """The call is named as the client wrote it."""
    for setting in ("on", "off"):
        found = ask(session, "SELECT id != 1, ai_gen('x', note), id <> 1 FROM people", optimizer=setting)
        assert found.table.schema.names == ["id != 1", "ai_gen('x', note)", "id <> 1"]


def test_tables_and_inserts(session: Session) -> None:
    """CREATE TABLE AS takes a cast that sorts, and INSERT takes columns by their place."""
    session.update(f"CREATE OR REPLACE TABLE made AS SELECT CAST(x AS text) FROM {TENS} ORDER BY x")
    assert ask(session, "SELECT * FROM made").table.schema.names == ["CAST(x AS text)"]
    session.update("CREATE OR REPLACE TABLE two (a BOOLEAN, b BOOLEAN)")
    session.update("INSERT INTO two SELECT id != 1, id <> 1 FROM people")
    assert len(rows(session, "SELECT * FROM two WHERE a = b")) == 9


def test_other_errors_stay(session: Session) -> None:
    """An error in such a text quotes what the client wrote."""
    with pytest.raises(SqlError, match="nope"):
        rows(session, "SELECT id != 1, id <> 1 FROM people WHERE nope")


def test_unreadable_texts_stay() -> None:
    """A text that is no query for the parser comes back."""
    assert names_apart("SELECT FROM WHERE", str) == "SELECT FROM WHERE"
    assert names_apart("SELECT a, b + 1 FROM t -- x", str) == 'SELECT a, b + 1 AS "b + 1" FROM t -- x'
