"""Ctrl-C in `flightllm query`, pressed on a real process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.servers import ServerProcess, await_true

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="sends SIGINT"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Start a server whose model takes a minute for the statements here."""
    with ServerProcess(tmp_path_factory.mktemp("running"), rows=400, window=2, latency_ms=300) as started:
        yield started


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ai_filter('Odd? {n}', n) FROM t",
        "SELECT count(*) FROM t WHERE ai_filter('Even? {n}', n)",
        "CREATE TABLE kept AS SELECT count(*) AS k FROM t WHERE ai_filter('Prime? {n}', n)",
    ],
    ids=["rows", "an aggregate", "a change"],
)
def test_ctrl_c_stops_any_statement(server: ServerProcess, sql: str) -> None:
    """The command ends with 130 and says what was spent; on the server the statement is cancelled."""
    mine = f"sql = '{sql.replace(chr(39), chr(39) * 2)}'"
    command = [sys.executable, "-m", "flightllm", "query", "--uri", server.uri, sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        await_true(lambda: bool(server.query(f"SELECT 1 FROM system.queries WHERE calls > 0 AND {mine}")))
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate()
    assert asking.returncode == 130, said
    assert "cancelled: " in said
    assert " model call" in said
    await_true(lambda: server.query(f"SELECT status FROM system.queries WHERE {mine}") == [("cancelled",)])
