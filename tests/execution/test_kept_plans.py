"""The plan that describing a query makes is used once, where nothing has changed that it depends on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.execution.planning import plan as plan_query
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with a table."""
    database = open_database(tmp_path)
    database.session().update("CREATE TABLE t AS SELECT 1 AS a, 'x' AS s")
    yield database
    database.close()


def is_taken(session: Session, sql: str, between: Callable[[], object] = lambda: None, **settings: str) -> bool:
    """Return whether the plan of describing a query is taken after something was done; run it."""
    plan = session.describe(sql).plan
    between()
    if plan is None:
        return False
    result = session.execute_planned(plan, sql, settings)
    if result is None:
        return False
    list(result.batches)
    return True


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t",
        "SELECT ai_gen('Say {s}', s) FROM t",
        "WITH w AS (SELECT a FROM t) SELECT * FROM w",
        "SELECT 1",
    ],
)
def test_planned_once(database: Database, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Describing a query and executing it plans it once; a second execution by the same plan is none."""
    planned = Mock(wraps=plan_query)
    monkeypatch.setattr("flightllm.session.reading.plan", planned)
    session = database.session()
    plan = session.describe(sql).plan
    assert plan is not None
    result = session.execute_planned(plan, sql)
    assert result is not None
    assert sum(batch.num_rows for batch in result.batches) == 1
    assert planned.call_count == 1
    assert session.execute_planned(plan, sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE TABLE t AS SELECT 'y' AS a, 'z' AS s",
        "INSERT INTO t VALUES (2, 'y')",
        "CREATE TABLE other (a INT)",
        "CREATE PROMPT p AS 'Other {s}'",
        "SET flightllm.optimizer = off",
    ],
)
def test_what_changes_between(database: Database, sql: str) -> None:
    """A change of tables, prompts or settings gives the plan up; the query sees what it changed."""
    session = database.session()
    assert not is_taken(session, "SELECT a, ai_gen('Say {s}', s) FROM t", lambda: session.update(sql))


def test_settings_of_the_call(database: Database) -> None:
    """Settings of the call alone count too."""
    assert not is_taken(database.session(), "SELECT a FROM t", optimizer="off")


def test_rights_that_change(database: Database) -> None:
    """Who may not read a table any more does not read it by a plan made before."""
    database.access.store.add_user(User("ann", "user"))
    admin = database.session()
    admin.update("GRANT SELECT ON TABLE t TO ann")
    ann = database.session(Principal("ann", "user"))
    assert is_taken(ann, "SELECT a FROM t")
    assert not is_taken(ann, "SELECT a FROM t", lambda: admin.update("REVOKE SELECT ON TABLE t FROM ann"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now()",
        "SELECT * FROM latest",
        "SELECT * FROM over_latest",
        "SELECT count(*) FROM system.queries",
        "SELECT CURRENT_DATE",
        "SELECT a FROM t WHERE a = ?",
        "EXPLAIN SELECT a FROM t",
    ],
)
def test_what_is_not_kept(database: Database, sql: str) -> None:
    """No plan is kept that has the time or rows of system tables in it, by a view too; nor one without its values."""
    session = database.session()
    session.update("CREATE VIEW latest AS SELECT now() AS at")
    session.update("CREATE VIEW over_latest AS SELECT * FROM latest")
    assert session.describe(sql).plan is None


def test_files_of_a_plan_given_up(database: Database) -> None:
    """A plan keeps the files of its tables until it is dropped."""
    session, readers = database.session(), database.catalog.store.folder.readers
    plan = session.describe("SELECT a FROM t").plan
    assert plan is not None
    assert len(readers._open) == 1
    plan.drop()
    plan.drop()
    assert session.execute_planned(plan, "SELECT a FROM t") is None
    session.describe("SELECT now()")
    readers._sweep()
    assert not readers._open
