"""The slow link: bytes come through unchanged in both directions, no faster than allowed, and ends are passed on."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.network import Network
from bench.traces import GIGABIT, Trace


def received(connection: socket.socket) -> bytes:
    """Return what comes until the other side ends."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture
def echo() -> Iterator[str]:
    """Serve the address of a server that sends back what comes, once its client has ended."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(received(connection))

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def connected(network: Network) -> socket.socket:
    """Connect to the server through the link."""
    host, _, port = network.address.rpartition(":")
    return socket.create_connection((host, int(port)))


def sent(network: Network, data: bytes) -> bytes:
    """Return what comes back through the link."""
    with connected(network) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return received(connection)


@pytest.mark.parametrize("latency", [0.0, 0.02])
def test_unchanged(echo: str, latency: float) -> None:
    """What is sent comes back the same, with a limit and without, late and at once, on several connections."""
    data = bytes(range(256)) * 8_000
    with Network(echo, latency) as network:
        assert sent(network, data) == data
        network.follow(Trace((0.5, 1.0), 0.01))
        assert sent(network, data) == data


def test_no_faster_than_allowed(echo: str) -> None:
    """Bytes take at least the time that the limit asks for, in each direction, and a little less for a burst.

    A slow or busy machine only takes longer.
    """
    with Network(echo) as network:
        network.limit(0.1)
        started = time.monotonic()
        assert len(sent(network, bytes(2_500_000))) == 2_500_000
        assert time.monotonic() - started > 0.8 * 2 * 2_500_000 / (0.1 * GIGABIT)


def test_limit_that_is_lifted(echo: str) -> None:
    """What waits for a slow link passes at once when that is slow no more."""
    with Network(echo) as network:
        network.limit(1e-9)
        with connected(network) as connection:
            connection.sendall(bytes(100_000))
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):  # the first byte would come in hours
                connection.recv(1)
            connection.settimeout(None)
            network.limit()
            assert len(received(connection)) == 100_000


def test_server_that_is_not_there() -> None:
    """Where no server listens the connection ends, and the next one is tried again."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Network(address) as network:
        for _ in range(2):
            with connected(network) as connection:
                assert connection.recv(1) == b""
