"""Changes of rows by users who can see or change a part: rights, row filters and masks of both tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flightllm.access.store import User
from flightllm.errors import FlightLLMError, NotFoundError, PermissionDeniedError, UnknownTableError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import rows, small_database

READING = {
    "update": "UPDATE t SET v = 'x' WHERE v = 'secret'",
    "update by a model": "UPDATE t SET v = ai_gen('Say', v)",
    "update where a model": "UPDATE t SET v = 'x' WHERE ai_filter('Is it so?', v) IS NOT NULL",
    "delete": "DELETE FROM t WHERE v = 'secret'",
    "delete where a model": "DELETE FROM t WHERE ai_filter('Is it so?', v) IS NOT NULL",
    "update returning": "UPDATE t SET v = v RETURNING v",
    "delete returning": "DELETE FROM t RETURNING v",
    "insert returning": "INSERT INTO t VALUES (9, 'n') RETURNING v",
}
"""Changes that read the table that they change."""
JOINING = {
    "update from": "UPDATE t SET v = s.w FROM s WHERE s.k = t.k",
    "update in": "UPDATE t SET v = (SELECT max(w) FROM s)",
    "delete using": "DELETE FROM t USING s WHERE s.k = t.k",
    "delete in": "DELETE FROM t WHERE k IN (SELECT k FROM s)",
    "merge": "MERGE INTO t USING s ON s.k = t.k WHEN MATCHED THEN UPDATE SET v = s.w"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.w)",
    "on conflict nothing": "INSERT INTO t SELECT k, w FROM s ON CONFLICT DO NOTHING",
    "on conflict update": "INSERT INTO t SELECT k, w FROM s ON CONFLICT (k) DO UPDATE SET v = excluded.v",
}
"""Changes that read the table `s`, too."""
BLIND = {
    "insert": "INSERT INTO t VALUES (9, 'n')",
    "insert defaults": "INSERT INTO t VALUES (9, DEFAULT)",
    "insert query": "INSERT INTO t SELECT 9, 'n'",
}
"""Changes that read nothing."""
TABLE = [{"k": 1, "v": "secret"}, {"k": 2, "v": "b"}]


@contextmanager
def _opened(folder: Path) -> Iterator[Database]:
    """Open a database with two tables, in which ann has no rights."""
    database = small_database(folder)
    admin = database.session()
    admin.update("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR)")
    admin.update("INSERT INTO t VALUES (1, 'secret'), (2, 'b')")
    admin.update("CREATE TABLE s AS SELECT * FROM (VALUES (1, 'w1'), (2, 'w2'), (3, 'w3')) AS s (k, w)")
    database.access.store.add_user(User("ann", "user"))
    yield database
    database.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database; see `_opened`."""
    with _opened(tmp_path) as database:
        yield database


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open one database for all changes that are refused, with users of different rights; see `USERS`."""
    with _opened(tmp_path_factory.mktemp("unchanged")) as database:
        for user, statements in USERS.items():
            database.access.store.add_user(User(user, "user"))
            for statement in statements:
                database.session().update(statement.replace(" ann", f" {user}"))
        yield database


def ann(database: Database, *statements: str) -> Session:
    """Return ann's session after an admin's statements."""
    for statement in statements:
        database.session().update(statement)
    return database.session(User("ann", "user").principal)


def table(database: Database) -> Sequence[dict[str, Any]]:
    """Return the rows of `t` as the admin sees them."""
    return rows(database.session(), "SELECT * FROM t ORDER BY k")


ALL = "GRANT ALL ON TABLE t TO ann"
POLICIES = {
    "no SELECT": [f"GRANT {right} ON TABLE t TO ann" for right in ("INSERT", "UPDATE", "DELETE")],
    "row filter": [ALL, "CREATE ROW FILTER ON t TO ann AS k > 1"],
    "mask": [ALL, "CREATE COLUMN MASK ON t(v) TO ann AS '***'"],
}
OTHER = "GRANT SELECT ON TABLE s TO ann"
USERS = {
    "stranger": [OTHER],
    "reader": [OTHER, "GRANT SELECT ON TABLE t TO ann"],
    **{policy.replace(" ", "_").lower(): [OTHER, *statements] for policy, statements in POLICIES.items()},
}
"""Users with the rights that these statements give to ann."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [*READING, *JOINING])
def test_a_part_is_not_enough(unchanged: Database, policy: str, name: str) -> None:
    """Who cannot read the whole table changes nothing by a statement that reads it, planned or run."""
    session = unchanged.session(User(policy.replace(" ", "_").lower(), "user").principal)
    sql = (READING | JOINING)[name]
    for change in (session.update, session.describe, lambda text: session.execute(f"EXPLAIN {text}")):
        with pytest.raises(PermissionDeniedError, match=r"has no SELECT|a part of 't'"):
            change(sql)
    assert table(unchanged) == TABLE


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BLIND)
def test_inserting_needs_no_reading(database: Database, policy: str, name: str) -> None:
    """An INSERT that reads nothing of the table needs the right to insert alone."""
    assert ann(database, *POLICIES[policy]).update(BLIND[name]) == 1
    assert len(table(database)) == 3


@pytest.mark.parametrize("name", [*READING, *BLIND, *JOINING])
def test_without_the_right(unchanged: Database, name: str) -> None:
    """Who can only read changes nothing, and who cannot read does not learn whether a table exists."""
    session = unchanged.session(User("stranger", "user").principal)
    with pytest.raises((PermissionDeniedError, NotFoundError)):
        session.update("INSERT INTO t VALUES (1, 2, 3, 4)")
    sql = (READING | BLIND | JOINING)[name]
    for hidden in (sql, sql.replace(" t ", " absent ", 1)):
        with pytest.raises((PermissionDeniedError, NotFoundError, UnknownTableError)) as raised:
            session.update(hidden)
        assert "secret" not in str(raised.value)
    session = unchanged.session(User("reader", "user").principal)
    with pytest.raises(PermissionDeniedError, match=r"has no (UPDATE|DELETE|INSERT)"):
        session.update(sql)
    assert table(unchanged) == TABLE


@pytest.mark.parametrize("name", JOINING)
def test_the_other_table_as_the_user_sees_it(database: Database, name: str) -> None:
    """Rows of the other table that a filter hides change nothing, and masked values are written masked."""
    unseen = ann(database, ALL)
    with pytest.raises(FlightLLMError, match=r"not found, or not granted|has no SELECT"):
        unseen.update(JOINING[name])
    assert table(database) == TABLE
    session = ann(
        database,
        "GRANT SELECT ON TABLE s TO ann",
        "CREATE ROW FILTER ON s TO ann AS k > 1",
        "CREATE COLUMN MASK ON s(w) TO ann AS '***'",
    )
    session.update(JOINING[name])
    found = {row["k"]: row["v"] for row in table(database)}
    assert found.get(1) == ("***" if name == "update in" else "secret")
    assert found.get(3) in (None, "***")
    assert {"w1", "w2", "w3"}.isdisjoint(found.values())
