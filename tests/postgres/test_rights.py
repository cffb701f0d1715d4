"""The rights of each role over this protocol: the same as over Flight."""

import asyncio

import psycopg
import pytest

from flightllm.access.store import User
from flightllm.session.database import Database
from tests.postgres.support import PASSWORD, SECONDS, Place

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


@pytest.mark.parametrize(
    "change", ["REVOKE SELECT ON {} FROM ann", "CREATE OR REPLACE ROW FILTER ON {} TO ann AS a < 5"]
)
@pytest.mark.parametrize("kind", ["cursor", "portal"])
def test_rights_that_change_under_a_cursor(door: Place, guarded: Database, change: str, kind: str) -> None:
    """Rows that wait in a cursor or in a suspended portal stay there once the user's rights change."""
    admin, table = guarded.session(), f"paged_{kind}"
    change = change.format(table)
    admin.update(f"CREATE OR REPLACE TABLE {table} AS SELECT value AS a FROM generate_series(1, 100)")
    admin.update(f"GRANT SELECT ON {table} TO ann")
    if kind == "cursor":
        with door.connect("ann", PASSWORD) as connection:
            connection.execute("BEGIN")
            connection.execute(f"DECLARE c CURSOR FOR SELECT a FROM {table} ORDER BY a")
            assert connection.execute("FETCH 1 FROM c").fetchall() == [(1,)]
            admin.update(change)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="run it again"):
                connection.execute("FETCH 2 FROM c")
        return
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        one = await asyncpg.connect(
            host="127.0.0.1", port=door.port, user="ann", password=PASSWORD, database="flightllm", timeout=SECONDS
        )
        async with asyncio.timeout(SECONDS):
            await one.execute("BEGIN")
            cursor = await one.cursor(f"SELECT a FROM {table} ORDER BY a")
            assert len(await cursor.fetch(2)) == 2
            admin.update(change)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="run it again"):
                await cursor.fetch(2)
            await one.close()

    asyncio.run(talk())


@pytest.mark.parametrize(("caller", "stops"), [("ann", True), ("root", True), ("rob", False)])
def test_cancelled_by_function(door: Place, caller: str, stops: bool) -> None:
    """pg_cancel_backend stops the statements of the user's own sessions; an admin's stops those of all."""
    waited = "SELECT ai_classify(b || a, ['x', 'y']) FROM open_t ORDER BY 1"
    with door.connect("ann", PASSWORD) as busy, door.connect(caller, PASSWORD) as other:
        (number,) = busy.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        with busy.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"DECLARE c NO SCROLL CURSOR FOR {waited}")
            asked = other.execute("SELECT pg_cancel_backend(%s::int)", [number]).fetchone()
            assert asked == (stops,)
            if stops:
                with pytest.raises(psycopg.errors.QueryCanceled):
                    cursor.execute("FETCH ALL FROM c")
            else:
                assert len(cursor.execute("FETCH ALL FROM c").fetchall()) == 100
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="pg_cancel_backend"):
            other.execute("SELECT pg_terminate_backend(%s)", [number])
