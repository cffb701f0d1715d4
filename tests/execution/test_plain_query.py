"""Queries without AI calls: what EXPLAIN says of them, and how often they are planned."""

import pyarrow as pa
import pytest

from flightllm.config.session_settings import Settings
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import plan
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.system_tables.indexes import ServerTables
from tests.databases import ask, explained


def test_explain_plain(session: Session) -> None:
    """A plain query shows DataFusion's plans alone."""
    assert list(explained(session, "SELECT id FROM people")) == ["logical_plan", "physical_plan"]


def test_a_plain_query_is_planned_once(database: Database, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schema, its settings for joins and its rows come from one look-up of each table."""
    snapshot, taken = ServerTables.snapshot, list[str]()

    def counted(tables: ServerTables, name: str) -> pa.Table:
        taken.append(name)
        return snapshot(tables, name)

    monkeypatch.setattr(ServerTables, "snapshot", counted)
    text = "SELECT q.query_id FROM system.queries q LEFT JOIN system.sessions s ON q.session_id = s.session_id"
    assert isinstance(plan(ParsedText(text), database._services, Settings()), PlainQuery)
    assert ask(session, text).rows
    assert sorted(taken) == ["queries", "queries", "sessions", "sessions"]
