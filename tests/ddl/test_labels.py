"""INSERT and DELETE of `system.labels`: who sees and changes which labels, and that they outlive a restart."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig
from flightllm.errors import (
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    PermissionDeniedError,
    SqlError,
    UnsupportedError,
)
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.storage.backup import back_up
from tests.databases import rows

INSERT = "INSERT INTO system.labels (function, task, fields, label)"
SHOWN = "SELECT function, fields, label, user FROM system.labels ORDER BY 1, 2, 3, 4"
ANN, ROB = Principal("ann", "user"), Principal("rob", "readonly")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path / "data"))
    yield database
    database.close()


def shown(session: Session) -> list[tuple[object, ...]]:
    """Return the labels that a session's user sees."""
    return [tuple(row.values()) for row in rows(session, SHOWN)]


def test_insert_and_delete(database: Database) -> None:
    """VALUES, a query and parameters give labels; DELETE reads the columns, an alias and a subquery."""
    session = database.session()
    session.update(f"{INSERT} VALUES ('ai_filter', 'Is it?', '{{\"a\": \"1\"}}', 'yes'), ('ai_gen', 't', '{{}}', 'x')")
    session.update(f"{INSERT} SELECT 'ai_score', 'How?', struct(value AS n), value FROM generate_series(1, 2)")
    values = pa.table({"1": ["ai_classify", "ai_extract"], "2": ["t", "t"], "3": ["{}", "{}"], "4": ["p", "q"]})
    assert session.update(f"{INSERT} VALUES ($1, $2, $3, $4)", values) == 2
    assert shown(session) == [
        ("ai_classify", "{}", "p", "local"),
        ("ai_extract", "{}", "q", "local"),
        ("ai_filter", '{"a": "1"}', "Yes", "local"),
        ("ai_gen", "{}", "x", "local"),
        ("ai_score", '{"n": "1"}', "1", "local"),
        ("ai_score", '{"n": "2"}', "2", "local"),
    ]
    assert session.update("DELETE FROM system.labels AS l WHERE l.label IN (SELECT '1') OR l.function = 'ai_gen'") == 2
    assert session.update("DELETE FROM system.labels") == 4
    assert shown(session) == []


def test_all_or_nothing(database: Database) -> None:
    """One wrong row refuses the whole statement."""
    session = database.session()
    with pytest.raises(InvalidInputError, match="'Yes' or 'No'"):
        session.update(f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x'), ('ai_filter', 't', '{{}}', 'maybe')")
    assert shown(session) == []


def test_the_size_of_a_statement_is_bounded(database: Database) -> None:
    """A query with far more rows than a user's share ends at the share, and adds no row."""
    session = database.session()
    endless = "SELECT 'ai_gen', 't', struct(value AS n), repeat('x', 10000) FROM generate_series(1, 1000000000)"
    with pytest.raises(LimitExceededError, match="your labels together can take 64 MiB"):
        session.update(f"{INSERT} {endless}")
    assert shown(session) == []


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("INSERT INTO system.labels VALUES ('f')", InvalidInputError, "name the columns"),
        ("INSERT INTO system.labels (user, label) VALUES ('bob', 'x')", InvalidInputError, "no value for 'user'"),
        (f"{INSERT} VALUES ('ai_gen', 't')", InvalidInputError, "4 columns, but its rows have 2"),
        (f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x') RETURNING *", UnsupportedError, "replaces your earlier one"),
        (f"{INSERT} VALUES ('ai_gen', 't', '{{}}', DEFAULT)", SqlError, "(?i)default"),
        ("UPDATE system.labels SET label = 'x'", UnsupportedError, "no UPDATE"),
        ("TRUNCATE system.labels", UnsupportedError, "no TRUNCATE"),
        ("DELETE FROM system.labels RETURNING *", UnsupportedError, "no DELETE of this form"),
        ("DELETE FROM system.labels WHERE nothing = 1", SqlError, "nothing"),
        ("DROP TABLE system.labels", PermissionDeniedError, "belongs to the server"),
    ],
)
def test_refused(database: Database, sql: str, error: type[FlightLLMError], message: str) -> None:
    """Other changes are refused, before they run too."""
    session = database.session()
    with pytest.raises(error, match=message):
        session.update(sql)
    with pytest.raises(error, match=message):
        session.describe(sql)


def test_explain_changes_nothing(database: Database) -> None:
    """EXPLAIN of a change shows its query."""
    session = database.session()
    session.update(f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x')")
    for sql in ("DELETE FROM system.labels", f"{INSERT} VALUES ('g', 't', '{{}}', 'x')"):
        assert "of system.labels: EXPLAIN changes nothing" in str(rows(session, f"EXPLAIN {sql}")[0]["plan"])
    assert len(shown(session)) == 1


def test_rights(database: Database) -> None:
    """Users see and delete their own labels, admins everybody's; a readonly user and a read-only session add none."""
    for principal in (ANN, ROB):
        database.access.store.add_user(User(principal.name, principal.role))
    admin, ann = database.session(), database.session(ANN)
    for session in (admin, ann):
        session.update(f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x')")
    assert [row[-1] for row in shown(ann)] == ["ann"]
    assert [row[-1] for row in shown(admin)] == ["ann", "local"]
    assert ann.update("DELETE FROM system.labels WHERE user = 'local'") == 0
    rob = database.session(ROB)
    assert shown(rob) == []
    for sql in (f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x')", "DELETE FROM system.labels"):
        with pytest.raises(PermissionDeniedError, match="requires the role user or admin"):
            rob.update(sql)
    ann.update("SET flightllm.read_only = true")
    with pytest.raises(PermissionDeniedError, match="read_only"):
        ann.update("DELETE FROM system.labels")
    assert admin.update("DELETE FROM system.labels WHERE user = 'ann'") == 1


def test_restart_and_backup(tmp_path: Path, database: Database) -> None:
    """Labels are there after a restart, and in a copy of the folder that was made while the server ran."""
    database.session().update(f"{INSERT} VALUES ('ai_gen', 't', '{{}}', 'x')")
    back_up(tmp_path / "data", tmp_path / "copy")
    database.close()
    for folder in ("data", "copy"):
        again = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path / folder))
        assert shown(again.session()) == [("ai_gen", "{}", "x", "local")]
        again.close()
