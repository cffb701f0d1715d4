"""Clients that are killed, stopped, or gone without a word: their queries end, and their places are given back."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from flightllm.client import Client
from flightllm.config import Config, EngineConfig, LimitsConfig, RecoveryConfig, ServerConfig
from flightllm.errors import CancelledError
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from flightllm.flight.sockets import keep_alive, own_sockets
from flightllm.server.serve import _server
from flightllm.session.database import Database
from tests.certificates import certified_config
from tests.databases import open_database
from tests.servers import await_true

LARGE = "SELECT value, repeat('x', 200) AS s FROM generate_series(1, 10000000)"
CLIENT = """
import sys
from flightllm.client import Client
with Client(sys.argv[1]) as client:
    for batch in client.query(sys.argv[2])[1]:
        print("rows", flush=True)
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database whose engine takes 50 ms for an answer."""
    with closing(open_database(tmp_path, {"latency_ms": 50.0}, window=1)) as database:
        yield database


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server for one query at a time."""
    limits, recovery = LimitsConfig(concurrent_queries=1), RecoveryConfig()
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), flight_limits=FlightLimits.of(limits, recovery))
    yield server
    server.drain(0)


@pytest.fixture
def other(server: FlightSqlServer) -> Iterator["subprocess.Popen[str]"]:
    """Start a client in a process of its own that reads a large result; return it once it has rows."""
    command = [sys.executable, "-c", CLIENT, server.uri, LARGE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "rows\n"
        yield process
        process.kill()


def result_threads() -> int:
    """Count the threads that make rows."""
    return sum(thread.name.startswith("result-") for thread in threading.enumerate())


def give_up_soon(server: FlightSqlServer) -> None:
    """Have clients given up from now on that stall for a second, which on a busy machine any may at its start."""
    object.__setattr__(server._core.limits, "stalled_seconds", 1.0)


def free(server: FlightSqlServer) -> bool:
    """Return whether no query has a place."""
    return server._core.slots.running == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_client_that_reads_no_more(
    server: FlightSqlServer, database: Database, other: "subprocess.Popen[str]", number: int
) -> None:
    """Killed or stopped in mid-result, a client loses its place within bounded time, and no thread makes its rows."""
    other.send_signal(number)
    give_up_soon(server)
    await_true(lambda: free(server))
    await_true(lambda: result_threads() == 0)
    with Client(server.uri) as client:
        assert next(client.query("SELECT 1 AS a")[1]).to_pylist() == [{"a": 1}]
    [first] = [row for row in (record.row() for record in database.queries._all()) if row["sql"] == LARGE]
    assert first["status"] == "cancelled"


def test_a_stalled_client_is_told(server: FlightSqlServer) -> None:
    """A client that reads on after it was given up gets an error that names the setting, never a short result."""
    with Client(server.uri) as client:
        batches = client.query(LARGE)[1]
        next(batches)
        give_up_soon(server)
        await_true(lambda: free(server))
        with pytest.raises(CancelledError, match=r"took no rows for \[recovery\] stalled_seconds = 1"):
            list(batches)


@pytest.mark.slow
def test_a_slow_query_is_not_a_stalled_client(server: FlightSqlServer) -> None:
    """A query that takes long for its rows, or a client that pauses for less, is let be."""
    give_up_soon(server)
    sql = "SELECT ai_gen('What of {n}?', n) AS a FROM generate_series(1, 40) AS g(n)"
    with Client(server.uri) as client:
        assert sum(batch.num_rows for batch in client.query(sql)[1]) == 40
        batches = client.query("SELECT 1 AS a")[1]
        next(batches)
        time.sleep(0.3)  # noqa: TID251 -- the client's pause
        assert list(batches) == []


@pytest.mark.skipif(sys.platform != "linux", reason="sets options of Linux")
def test_connections_are_probed(server: FlightSqlServer) -> None:
    """A connection that is accepted is one that the system closes when the other end no longer answers."""
    keep_alive(server.port, 30)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        await_true(lambda: options(client) is not None)
        assert options(client) == (1, 15, 30_000)


@pytest.mark.skipif(sys.platform != "linux", reason="sets options of Linux")
def test_connections_of_certified_clients_are_probed(tmp_path: Path) -> None:
    """The port for clients that show a certificate probes its connections too."""
    tls = certified_config(tmp_path, trustme.CA())
    recovery = RecoveryConfig(dead_peer_seconds=30)
    config = Config(server=tls, engine=EngineConfig("fake"), recovery=recovery, data_folder=tmp_path / "data")
    with closing(Database.open(config)) as database:
        server = _server(database, config, lambda: None)
        for port in (server.port, server.certified_port):
            with socket.create_connection(("127.0.0.1", port)) as client:
                await_true(lambda client=client: options(client) is not None)  # type: ignore[misc]
                assert options(client) == (1, 15, 30_000)
        server.drain(0)


def options(client: socket.socket) -> tuple[int, int, int] | None:
    """Return whether the other end of a connection to this process probes it, when first, and for how long in all."""
    for found in own_sockets():
        try:
            if found.getpeername()[1] != client.getsockname()[1]:
                continue
        except OSError:  # it listens
            continue
        return (
            found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        )
    return None
