"""Clients of a real server whose statements have no bound: they are stopped in time, and hurt nobody."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from adbc_driver_manager import Error

from flightllm.client import Client
from flightllm.config import LimitsConfig
from flightllm.errors import FlightLLMError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.servers import ServerProcess, ask, await_true, cursor_of, serving

ENDLESS = "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000)) AS x"
"""Takes minutes."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightSqlServer]:
    """Serve with room for two statements."""
    with serving(tmp_path_factory.mktemp("served"), LimitsConfig(concurrent_queries=2)) as server:
        yield server


def _isolated(server: FlightSqlServer) -> int:
    running: int = cast("Database", server._core.database)._services.isolation.running
    return running


def test_timeout(server: FlightSqlServer) -> None:
    """A session's timeout ends a statement and gives its place back."""
    with cursor_of(server) as cursor:
        cursor.execute("SET flightllm.timeout = 1")
        with pytest.raises(Error, match=r"flightllm\.timeout"):
            ask(cursor, ENDLESS)
    await_true(lambda: _isolated(server) == 0 and server._core.slots.running == 0)


def test_others(server: FlightSqlServer) -> None:
    """Others are answered while such a statement runs, which ends when its client cancels it."""
    failed = list[Error]()
    with cursor_of(server) as cursor:

        def run() -> None:
            try:
                ask(cursor, ENDLESS)
            except Error as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        await_true(lambda: _isolated(server) == 1)
        with cursor_of(server) as other:
            assert ask(other, "SELECT 1") == [(1,)]
            ((query_id,),) = ask(
                other, "SELECT query_id FROM system.queries WHERE status = 'running' AND sql LIKE '%leven%'"
            )
        server._core.database.queries.get(query_id).cancel()
        thread.join(30)
    assert len(failed) == 1
    await_true(lambda: _isolated(server) == 0 and server._core.slots.running == 0)


@pytest.mark.parametrize("make", [f"CREATE TABLE heavy AS {ENDLESS}", f"INSERT INTO t SELECT x FROM ({ENDLESS})"])
def test_changes_time_out(server: FlightSqlServer, make: str) -> None:
    """A statement that stores such rows is stopped in time, and nothing has changed."""
    with cursor_of(server) as cursor:
        cursor.execute("SET flightllm.timeout = 1")
        with pytest.raises(Error, match=r"flightllm\.timeout"):
            cursor.execute(make)
    await_true(lambda: _isolated(server) == 0)
    with cursor_of(server) as cursor:
        assert ask(cursor, "SELECT count(*) FROM t") == [(1000,)]


def test_prepared(server: FlightSqlServer) -> None:
    """A statement is prepared without computing its constants, and runs with the values that are bound to it."""
    with cursor_of(server) as cursor:
        cursor.adbc_prepare(ENDLESS)
        cursor.execute("SELECT repeat('ab', ?) AS x", (3,))
        assert cursor.fetchall() == [("ababab",)]


@pytest.mark.slow
def test_server_killed(tmp_path: Path) -> None:
    """The processes of statements end with the server, also where it is killed."""
    with ServerProcess(tmp_path, 10, 1) as server:
        ended = threading.Event()

        def run() -> None:
            with suppress(FlightLLMError), Client(server.uri) as client:
                list(client.query(ENDLESS)[1])
            ended.set()

        threading.Thread(target=run).start()
        await_true(lambda: len(_children(server.process.pid)) >= 2)  # a spare one too
        children = _children(server.process.pid)
        os.kill(server.process.pid, signal.SIGKILL)
        assert ended.wait(30)
        await_true(lambda: not any(map(_runs, children)))


def _children(process: int) -> list[int]:
    found = list[int]()
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has ended
            found += map(int, (task / "children").read_text().split())
    return found


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
