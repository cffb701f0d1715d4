"""The rights of each role over this protocol: the same as over Flight."""

import psycopg
import pytest

from flightllm.access.store import User
from flightllm.session.database import Database
from tests.postgres.support import PASSWORD, Place

STATEMENTS = {
    "granted table": ("SELECT count(*) FROM open_t", "root ann rob"),
    "other table": ("SELECT count(*) FROM shut_t", "root"),
    "plan of another table": ("EXPLAIN SELECT * FROM shut_t", "root"),
    "copy of another table": ("COPY shut_t TO STDOUT", "root"),
    "copy of a query": ("COPY (SELECT * FROM shut_t) TO STDOUT", "root"),
    "rows for another table": ("COPY shut_t FROM STDIN", "root"),
    "rows for a granted table": ("COPY open_t FROM STDIN", "root"),
    "cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM shut_t", "root"),
    "prepared": ("PREPARE p AS SELECT * FROM shut_t", "root"),
    "other model": ("SELECT ai_gen('Say', model => shut_m)", "root"),
    "a grant": ("GRANT SELECT ON open_t TO rob", "root"),
    "delete": ("DELETE FROM shut_t WHERE a < 0", "root"),
    "own table": ("CREATE OR REPLACE TABLE own_{user} (a int)", "root"),
    "read a file": ("SELECT * FROM '/etc/passwd'", ""),
    "copy of a file": ("COPY (SELECT 1) TO '/tmp/x'", ""),
}


@pytest.mark.parametrize("what", STATEMENTS)
@pytest.mark.parametrize("user", ["root", "ann", "rob"])
def test_statements(door: Place, user: str, what: str) -> None:
    """A statement is allowed for the same roles, in simple and in extended queries."""
    sql, allowed = STATEMENTS[what]
    text = sql.format(user=user)
    with door.connect(user, PASSWORD) as connection, connection.cursor() as cursor:
        try:
            if text.startswith("COPY"):
                with cursor.copy(text) as copy:
                    _ = list(copy) if "TO STDOUT" in text else None
            else:
                cursor.execute(text, prepare=what != "prepared")
        except psycopg.Error as error:
            failed = error.sqlstate
        else:
            failed = None
    assert (failed is None) == (user in allowed.split()), failed
    assert failed in (None, "42501", "42P01", "42809", "0A000", "42000")


def test_tokens_and_sessions(door: Place, guarded: Database) -> None:
    """A token logs in as the user `token`; the session is listed while it is open; a dropped user is out at once."""
    store = guarded.access.store
    store.add_user(User("max", "user"), PASSWORD)
    token = store.add_token("max")
    with door.connect("token", token) as connection:
        found = connection.execute("SELECT \"user\" FROM system.sessions WHERE peer LIKE 'postgres:%'").fetchall()
        assert found == [("max",)]
        store.drop_user("max")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        door.connect("token", token)
