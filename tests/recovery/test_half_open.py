"""A client behind a network that goes away: nothing comes from it any more, no FIN, no RST, no answer to a probe."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from flightllm.client import Client
from flightllm.config import Config, EngineConfig, LimitsConfig, RecoveryConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.flight.sockets import own_sockets
from flightllm.server.serve import _server
from flightllm.session.database import Database
from tests.servers import await_true

HERE, THERE = "198.18.77.1", "198.18.77.2"
"""Of the addresses that are kept for tests of networks."""
READS = "SELECT value, repeat('x', 200) AS s FROM generate_series(1, 1000000000)"
WAITS = "SELECT ai_gen('What of {n}?', n) AS a FROM generate_series(1, 100000) AS g(n)"
"""One whose rows are on their way when the network goes, and one whose client waits for its first row."""
CLIENT = """
import sys
from flightllm.client import Client
with Client(sys.argv[1]) as client:
    for batch in client.query(sys.argv[2])[1]:
        pass
"""


@dataclass(frozen=True)
class Network:
    """A namespace `name` whose only link is to this machine."""

    ip: str
    name: str

    @contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """Run a command in it, and kill it in the end."""
        command = (self.ip, "netns", "exec", self.name, *command)
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()

    def cut(self) -> None:
        """Take its end of the link down: packets to it are lost from now on."""
        subprocess.run([self.ip, "-n", self.name, "link", "set", "far", "down"], check=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """Make a network of its own for a client."""
    ip, name = shutil.which("ip"), f"flightllm-{os.getpid()}"
    if sys.platform != "linux" or ip is None:
        pytest.skip("needs Linux, and the command ip")
    near = f"fl{os.getpid()}"
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"may make no network here: {made.stderr.decode().strip()}")
    try:
        for command in (
            f"link add {near} type veth peer name far netns {name}",
            f"address add {HERE}/30 dev {near}",
            f"link set {near} up",
            f"-n {name} address add {THERE}/30 dev far",
            f"-n {name} link set far up",
        ):
            made = subprocess.run([ip, *command.split()], capture_output=True, check=False)
            if made.returncode:
                pytest.skip(f"may make no network here: {made.stderr.decode().strip()}")
        yield Network(ip, name)
    finally:
        subprocess.run([ip, "link", "del", near], capture_output=True, check=False)
        subprocess.run([ip, "netns", "del", name], capture_output=True, check=False)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database whose engine takes long for an answer, and which gives up nobody who is just slow."""
    engine = EngineConfig("fake", max_in_flight=1, options={"latency_ms": 500.0})
    limits = LimitsConfig(concurrent_queries=2)
    recovery = RecoveryConfig(stalled_seconds=0, dead_peer_seconds=3)
    server = ServerConfig(f"{HERE}:0", insecure=True)
    config = Config(server=server, engine=engine, limits=limits, recovery=recovery, data_folder=tmp_path)
    with closing(Database.open(config)) as database:
        yield database


@pytest.fixture
def server(network: Network, database: Database) -> Iterator[FlightSqlServer]:
    """Listen where the network reaches it."""
    del network
    server = _server(database, database.config, lambda: None)
    yield server
    server.drain(0)


def connected() -> bool:
    """Return whether this process has a connection to the client's address."""
    for found in own_sockets():
        try:
            if found.getpeername()[0].endswith(THERE):  # an address of IPv6 may hold it
                return True
        except OSError:  # it listens
            continue
    return False


class Neighbour(threading.Thread):
    """Another client, which asks one query after the other until it is told to stop."""

    def __init__(self, uri: str) -> None:
        super().__init__(name="neighbour")
        self._uri = uri
        self.enough = threading.Event()
        self.answers = list[int]()

    def run(self) -> None:
        """Count the rows of each answer; an error ends it early."""
        with Client(self._uri) as client:
            while not self.enough.is_set():
                rows = client.query("SELECT value FROM generate_series(1, 1000)")[1]
                self.answers.append(sum(batch.num_rows for batch in rows))


@pytest.mark.parametrize("sql", [READS, pytest.param(WAITS, marks=pytest.mark.slow)])
def test_the_network_goes_away(network: Network, server: FlightSqlServer, database: Database, sql: str) -> None:
    """The connection is closed, the query cancelled and its place free; other clients notice nothing."""
    other = Neighbour(server.uri)
    with network.running(sys.executable, "-c", CLIENT, server.uri, sql):
        await_true(lambda: any(record.rows or record.row()["answered"] for record in database.queries.running()))
        (record,) = database.queries.running()
        assert connected()
        other.start()
        try:
            await_true(lambda: len(other.answers) > 1)
            network.cut()
            await_true(lambda: not connected())
            await_true(lambda: record.row()["status"] != "running")
            seen = len(other.answers)
            await_true(lambda: len(other.answers) > seen + 1)
        finally:
            other.enough.set()
            other.join()
    assert record.row()["status"] == "cancelled"
    await_true(lambda: server.load().running == 0)
    assert set(other.answers) == {1000}
