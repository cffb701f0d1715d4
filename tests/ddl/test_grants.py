"""Grants on what is not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.errors import NotFoundError
from flightllm.session.database import Database
from tests.databases import open_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with a user, a table, a view, a prompt and a created model."""
    database = open_database(tmp_path)
    database.access.store.add_user(User("alice", "user"))
    admin = database.session()
    for statement in (
        "CREATE SCHEMA s",
        "CREATE TABLE s.t AS SELECT 1 AS a",
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE MODEL small OPTIONS (engine 'fake')",
        "CREATE PROMPT family AS 'What is it?'",
    ):
        admin.update(statement)
    yield database
    database.close()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("SELECT ON t", "there is no table 't'; the tables are: s.t, v"),
        ("SELECT ON TABLE x.t", "there is no table 'x.t'"),
        ("CREATE ON SCHEMA pubic", "there is no schema 'pubic'; did you mean 'public'?"),
        ("USAGE ON MODEL smal", "there is no model 'smal'; did you mean 'small'?"),
        ("USAGE ON MODEL demo", "there is no model 'demo': the server's own is 'default'; there are: default, small"),
        ("USAGE ON PROMPT famly", "there is no prompt 'famly'; did you mean 'family'?"),
    ],
)
def test_a_typo(database: Database, what: str, message: str) -> None:
    """It is said, and nothing is granted; taking such a grant away says so too."""
    before = database.access.store.snapshot().grants
    with pytest.raises(NotFoundError) as raised:
        database.session().update(f"GRANT {what} TO alice")
    assert str(raised.value).startswith(message)
    assert database.access.store.snapshot().grants == before
    with pytest.raises(NotFoundError, match="'alice' has no such privilege"):
        database.session().update(f"REVOKE {what} FROM alice")


@pytest.mark.parametrize(
    "what",
    [
        "SELECT ON s.t",
        "SELECT ON v",
        "SELECT ON system.queries",
        "CREATE ON SCHEMA s",
        "USAGE ON MODEL small",
        "USAGE ON MODEL default",
        "USAGE ON PROMPT family",
    ],
)
def test_what_is_there(database: Database, what: str) -> None:
    """Tables, views, system tables, schemas, models and prompts, wherever they come from."""
    database.session().update(f"GRANT {what} TO alice")
    assert any(grant.grantee == "alice" for grant in database.access.store.snapshot().grants)
