"""Rights are those on the table that a change finds, not on one that had its name before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.errors import PermissionDeniedError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import open_database, rows

BATCH = pa.record_batch({"a": [1]})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with two users, who may make tables."""
    database = open_database(tmp_path)
    for name in ("alice", "bob"):
        database.access.store.add_user(User(name, "user"))
        database.session().update(f"GRANT CREATE ON SCHEMA public TO {name}")
    yield database
    database.close()


def session_of(database: Database, name: str) -> Session:
    """Open a session of a user."""
    return database.session(database.access.store.user(name).principal)


@pytest.mark.parametrize(("mode", "before"), [("replace", True), ("replace", False), ("create_append", False)])
def test_an_upload(database: Database, mode: Any, before: bool) -> None:
    """Where somebody else made the table while rows came, it stays as they made it."""
    alice, bob = session_of(database, "alice"), session_of(database, "bob")
    if before:
        alice.update("CREATE TABLE t AS SELECT 7 AS a")

    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCH
        if before:
            alice.update("DROP TABLE t")
        bob.update("CREATE TABLE t AS SELECT 8 AS a")

    with pytest.raises(PermissionDeniedError, match="alice"):
        alice.ingest("t", batches(), BATCH.schema, mode)
    assert rows(database.session(), "SELECT a FROM t") == [{"a": 8}]
