"""Views, and row filters, can call the functions that need no answers of a model."""

from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import ask, open_database

VIEWS = [
    ("CREATE VIEW v AS SELECT id, j -> 'a' ->> 'b' AS b FROM docs", "SELECT b FROM v ORDER BY id"),
    ("CREATE VIEW v (id, b) AS SELECT id, json_get(j, 'a', 'b') FROM docs", "SELECT b FROM v ORDER BY id"),
    (
        "CREATE VIEW v AS SELECT id, (j -> 'a' -> 'b')::text AS b FROM docs",
        "SELECT repeat(b, id) AS b FROM v ORDER BY id",
    ),
    ("CREATE VIEW v AS SELECT id, repeat(j -> 'a' ->> 'b', id) AS b FROM docs", "SELECT b FROM v ORDER BY id"),
]


def _make(session: Session) -> None:
    session.update(
        """CREATE TABLE docs AS SELECT * FROM (VALUES (1, '{"a": {"b": 7}}'), (2, '{"a": 1}')) AS t (id, j)"""
    )


@pytest.mark.parametrize(("made", "read"), VIEWS)
def test_views(tmp_path: Path, made: str, read: str) -> None:
    """A view that reads JSON has its rows, in a process of its own and after a restart too."""
    for restarted in (False, True):
        database = open_database(tmp_path)
        session = database.session()
        try:
            if not restarted:
                _make(session)
                session.update(made)
            assert ask(session, read).rows == [{"b": "7"}, {"b": None}]
            assert session.describe("SELECT * FROM v").schema.names == ["id", "b"]
            asked = ask(session, "SELECT ai_gen('x', b) AS g FROM v")
            assert (asked.calls, asked.cache_hits) == ((0, 1) if restarted else (1, 0))
        finally:
            database.close()


def test_views_and_filters_of_others(tmp_path: Path) -> None:
    """Somebody else reads such a view over the rows that a filter on JSON leaves."""
    database = open_database(tmp_path)
    try:
        _make(session := database.session())
        session.update(VIEWS[0][0])
        database.access.store.add_user(User("ann", "user"))
        session.update("GRANT SELECT ON docs TO ann")
        session.update("GRANT SELECT ON v TO ann")
        session.update("CREATE ROW FILTER ON docs TO ann AS j -> 'a' ->> 'b' = '7'")
        ann = database.session(Principal("ann", "user"))
        assert ask(ann, "SELECT id FROM docs").rows == [{"id": 1}]
        assert ask(ann, "SELECT b FROM v").rows == [{"b": "7"}]
        assert ask(ann, "SELECT repeat(b, 2) AS r FROM v").rows == [{"r": "77"}]
    finally:
        database.close()


def test_unknown_functions_are_told(tmp_path: Path) -> None:
    """A view with a function that there is not is refused when it is made."""
    database = open_database(tmp_path)
    try:
        with pytest.raises(SqlError, match="json_nothing"):
            database.session().update("CREATE VIEW v AS SELECT json_nothing('{}') AS x")
    finally:
        database.close()
