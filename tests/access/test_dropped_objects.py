"""What was granted on an object goes with it, and stays with one that is replaced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.errors import ConfigError, PermissionDeniedError, UnknownTableError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database, rows

CREATED = {
    "TABLE t": "CREATE {} TABLE t AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'",
    "VIEW v": "CREATE {} VIEW v AS SELECT 3 AS a",
    "MODEL m": "CREATE {} MODEL m OPTIONS (engine 'fake')",
    "PROMPT p": "CREATE {} PROMPT p AS 'What is it?'",
}
GRANTS = ("SELECT ON t", "INSERT ON t", "SELECT ON v", "USAGE ON MODEL m", "USAGE ON PROMPT p")
USES = {
    "TABLE t": "SELECT * FROM t",
    "VIEW v": "SELECT * FROM v",
    "MODEL m": "SELECT ai_gen('Why?', model => m)",
    "PROMPT p": "SELECT ai_gen(prompt => p)",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with objects of each kind, all granted to a user."""
    database = open_database(tmp_path)
    database.access.store.add_user(User("alice", "user"))
    for statement in CREATED.values():
        database.session().update(statement.format(""))
    for grant in GRANTS:
        database.session().update(f"GRANT {grant} TO alice")
    yield database
    database.close()


@pytest.fixture
def alice(database: Database) -> Session:
    """Return the user's session."""
    return database.session(database.access.store.user("alice").principal)


@pytest.mark.parametrize("what", list(USES))
def test_dropped_and_made_anew(database: Database, alice: Session, what: str) -> None:
    """What has the name of a dropped object was granted to nobody; other objects still are."""
    admin = database.session()
    rows(alice, USES[what])
    with pytest.raises(PermissionDeniedError):
        alice.update(f"DROP {what}")
    rows(alice, USES[what])
    admin.update(f"DROP {what}")
    admin.update(CREATED[what].format(""))
    for other, sql in USES.items():
        if other != what:
            rows(alice, sql)
    with pytest.raises((PermissionDeniedError, UnknownTableError)):
        rows(alice, USES[what])
    kind, name = what.replace("VIEW", "TABLE").split()
    assert (kind, name) not in {(grant.kind, grant.name) for grant in database.access.store.snapshot().grants}


def test_a_failed_drop_of_several_takes_no_grants(database: Database, alice: Session) -> None:
    """DROP of two tables leaves both with their grants if the grants of the second cannot be removed."""
    admin = database.session()
    admin.update("CREATE TABLE u AS SELECT 1 AS a")
    admin.update("GRANT SELECT ON u TO alice")
    before = database.access.store.snapshot().grants
    with database.access.store._changing() as connection:
        connection.execute(
            "CREATE TRIGGER kept BEFORE DELETE ON grants WHEN OLD.name = 'u' BEGIN SELECT RAISE(ABORT, 'kept'); END"
        )
    with pytest.raises(ConfigError, match="kept"):
        admin.update("DROP TABLE t, u")
    assert database.access.store.snapshot().grants == before
    assert rows(alice, "SELECT a FROM u") == [{"a": 1}]
    assert len(rows(alice, "SELECT a FROM t")) == 2
    with database.access.store._changing() as connection:
        connection.execute("DROP TRIGGER kept")
    admin.update("DROP TABLE t, u")
    left = {grant.name for grant in database.access.store.snapshot().grants}
    assert left.isdisjoint({"t", "u"})
    assert {"v", "m", "p"} <= left


@pytest.mark.parametrize("what", list(USES))
def test_replaced(database: Database, alice: Session, what: str) -> None:
    """CREATE OR REPLACE keeps what was granted."""
    database.session().update(CREATED[what].format("OR REPLACE"))
    rows(alice, USES[what])


def test_filters_and_masks(database: Database, alice: Session) -> None:
    """Those of a table hold for one that replaces it, and for a new one of its name: an admin alone takes them away."""
    admin = database.session()
    admin.update("CREATE ROW FILTER ON t TO alice AS a = 2")
    admin.update("CREATE COLUMN MASK ON t(b) TO alice AS 'hidden'")
    admin.update(CREATED["TABLE t"].format("OR REPLACE"))
    assert rows(alice, USES["TABLE t"]) == [{"a": 2, "b": "hidden"}]
    admin.update("DROP TABLE t")
    admin.update(CREATED["TABLE t"].format(""))
    admin.update("GRANT SELECT ON t TO alice")
    assert rows(alice, USES["TABLE t"]) == [{"a": 2, "b": "hidden"}]


def test_schemas(database: Database, alice: Session) -> None:
    """A schema that is made anew was granted to nobody."""
    admin = database.session()
    made = ("CREATE SCHEMA s", "CREATE TABLE s.t AS SELECT 1 AS a")
    for statement in (*made, "GRANT SELECT ON SCHEMA s TO alice"):
        admin.update(statement)
    assert rows(alice, "SELECT * FROM s.t") == [{"a": 1}]
    for statement in ("DROP TABLE s.t", "DROP SCHEMA s", *made):
        admin.update(statement)
    with pytest.raises(UnknownTableError):
        rows(alice, "SELECT * FROM s.t")
