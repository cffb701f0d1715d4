"""The table of views, under its own name and under that of the SQL standard."""

from pathlib import Path

from flightllm.access.store import User
from flightllm.common.principal import Principal
from tests.databases import rows, small_database


def test_views(tmp_path: Path) -> None:
    """Views alone are listed, with and without AI calls, for those who can read them."""
    database = small_database(tmp_path)
    database.access.store.add_user(User("ann", "user"))
    session, ann = database.session(), database.session(Principal("ann", "user"))
    listed = "SELECT table_schema, table_name, definition FROM information_schema.views ORDER BY table_name"
    assert rows(session, listed) == []
    session.update("CREATE VIEW plain AS SELECT id FROM people")
    session.update("CREATE VIEW asked AS SELECT ai_gen('x', name) AS g FROM people")
    found = [{"table_schema": "public", "table_name": name, "definition": None} for name in ("asked", "plain")]
    assert rows(session, listed) == found
    assert rows(ann, listed) == []
    session.update("GRANT SELECT ON plain TO ann")
    assert rows(ann, listed) == []
    session.update("GRANT SELECT ON people TO ann")
    assert rows(ann, listed.replace("information_schema", "system")) == found[1:]
    database.close()
