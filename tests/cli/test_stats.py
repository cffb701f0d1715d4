"""`flightllm stats` against a real server with running queries."""

from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from flightllm.access.store import User
from flightllm.cli import main
from flightllm.cli.stats import StatsSnapshot, view
from flightllm.client import Client
from flightllm.common.principal import Role
from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer
from tests.databases import open_database
from tests.servers import ask, cursor_of, serving

ASKING = "SELECT n, ai_gen('Of {n}?', n) AS a FROM t"


def _shown(*arguments: Any) -> str:
    console = Console(width=150, record=True, file=StringIO())
    console.print(view(*arguments))
    return console.export_text()


def test_once(tmp_path: Path) -> None:
    """One look shows what ran and what runs: calls, reuse, progress and the engine's load."""
    with serving(tmp_path, window=4, latency_ms=50.0) as server:
        with cursor_of(server) as cursor:
            for _ in range(2):
                ask(cursor, f"{ASKING} WHERE n <= 20")
        idle = CliRunner().invoke(main, ["stats", "--once", "--uri", server.uri])
        assert idle.exit_code == 0
        assert "3, 0 running, 0 failed" in idle.output  # one made the table
        assert "20 (50.0%)" in idle.output
        assert "fake: 0 of 4 prompts in flight" in idle.output
        assert "no query is running" in idle.output
        with cursor_of(server) as cursor:
            cursor.execute(ASKING)
            cursor.fetchone()
            busy = CliRunner().invoke(main, ["stats", "--once", "--uri", server.uri]).output
            (record,) = [r for r in server._core.database.queries.running() if r.sql == ASKING]  # type: ignore[attr-defined]
        assert "4, 1 running" in busy
        (line,) = [line for line in busy.splitlines() if record.query_id in line]
        assert ASKING in line
        assert "local" in line
        assert "/ 1,000" in line
        assert "system.queries" not in busy


def test_rate(tmp_path: Path) -> None:
    """Two looks tell how many calls a second were made between them."""
    with serving(tmp_path) as server, Client(server.uri) as client:
        before = StatsSnapshot.of(client)
        with cursor_of(server) as cursor:
            ask(cursor, f"{ASKING} WHERE n <= 30")
        now = StatsSnapshot.of(client)
        assert now.calls_per_second(before) == pytest.approx(30 / (now.at - before.at))
        assert now.calls_per_second(None) is None
        assert before.calls_per_second(now) is None
        assert "30, " in _shown(now, before)
        assert " per second" in _shown(now, before)


def test_who_is_no_admin(tmp_path: Path) -> None:
    """Nothing is said of the engine, whose settings such a user does not see."""
    with closing(open_database(tmp_path)) as database:
        roles: tuple[Role, ...] = ("readonly", "admin")
        for role in roles:
            database.access.store.add_user(User(f"a_{role}", role))
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
        try:
            for role, shown in (("readonly", False), ("admin", True)):
                token = database.access.store.add_token(f"a_{role}")
                result = CliRunner().invoke(main, ["stats", "--once", "--uri", server.uri, "--token", token])
                assert result.exit_code == 0
                assert "model calls" in result.output
                assert ("engine" in result.output) == shown
        finally:
            server.drain(0)


def test_no_server() -> None:
    """The error is one line that says what to do."""
    result = CliRunner().invoke(main, ["stats", "--uri", "grpc://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no server answers" in result.output
