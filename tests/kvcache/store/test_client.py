"""The client of a store: its errors, its patience, and servers that go and come back."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flightllm.client import Client
from flightllm.config import LimitsConfig
from flightllm.errors import (
    ConfigError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    StoreUnavailableError,
)
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.store.client import FlightStore
from flightllm.server.kv_server import KvServer
from tests.chunks import bitstream, key_of
from tests.kv_servers import MIB, KvProcess, serving_chunks
from tests.servers import await_true, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KvServer]:
    """Serve an empty store of 10 MiB."""
    with serving_chunks(tmp_path) as server:
        yield server


@pytest.fixture
def store(server: KvServer) -> Iterator[FlightStore]:
    """Connect to it."""
    with FlightStore(server.uri) as store:
        yield store


@pytest.mark.parametrize("size", [0, 1, MIB, 3 * MIB + 5])
def test_what_was_put_comes_back(store: FlightStore, size: int) -> None:
    """It is a `ChunkStore` like the one on disk."""
    remote: ChunkStore = store
    remote.put(key_of(1), "raw", bitstream(1, size))
    assert remote.lookup([key_of(2), key_of(1)]) == [{}, {"raw": size}]
    parts = list(remote.get(key_of(1), "raw"))
    assert b"".join(parts) == bitstream(1, size)
    assert all(len(part) <= MIB for part in parts)


def test_status(store: FlightStore) -> None:
    """What is held and what became of requests is told as the store itself tells it."""
    store.put(key_of(1), "raw", b"abc")
    store.put(key_of(1), "int8", b"a")
    store.lookup([key_of(2)])
    list(store.get(key_of(1), "raw"))
    status = store.status()
    assert (status.chunks, status.bytes, status.hits, status.misses) == (1, 4, 1, 1)
    assert status.codecs["raw"].bytes == 3
    assert store.clear() == 2
    assert store.status().codecs == {}


def test_errors_are_ours(store: FlightStore) -> None:
    """Not there, too large, and names that are none: each as the contract says."""
    with pytest.raises(NotFoundError, match="is held as raw"):
        next(store.get(key_of(1), "raw"))
    with pytest.raises(LimitExceededError, match=r"^the KV store at grpc.*max_bytes under \[kvstore\]$"):
        store.put(key_of(1), "raw", bytes(10 * MIB + 1))
    for key, codec in (("x", "raw"), (key_of(1), "No")):
        with pytest.raises(InvalidInputError):
            store.put(key, codec, b"")
        with pytest.raises(InvalidInputError):
            next(store.get(key, codec))
    with pytest.raises(InvalidInputError):
        store.lookup(["x"])


def test_thousands_of_keys(store: FlightStore) -> None:
    """One call looks them all up."""
    store.put(key_of(7), "raw", b"x")
    found = store.lookup([key_of(number) for number in range(20_000)])
    assert [number for number, held in enumerate(found) if held] == [7]


def test_closing_the_iterator_ends_the_transfer(tmp_path: Path) -> None:
    """The server closes its file soon after, long before all of it could have been sent."""
    with serving_chunks(tmp_path, max_bytes=100 * MIB) as server, FlightStore(server.uri) as store:
        store.put(key_of(1), "raw", bytes(64 * MIB))
        parts = store.get(key_of(1), "raw")
        next(parts)
        [path] = tmp_path.glob("kvstore/chunks/*/*")
        assert is_open(path)
        parts.close()  # type: ignore[attr-defined]
        await_true(lambda: not is_open(path))


def is_open(path: Path) -> bool:
    """Return whether this process has a file open."""
    links = list(Path("/proc/self/fd").iterdir())
    return any(link.exists() and link.resolve() == path for link in links)


def test_many_clients(server: KvServer) -> None:
    """Clients put, look up and get at once, with a connection of their own or shared: every answer is right."""
    wrong = list[object]()

    def work(store: FlightStore, seed: int) -> None:
        try:
            for step in range(15):
                number = (seed + step) % 6
                store.put(key_of(number), "raw", bitstream(number, 200_000 * (number + 1)))
                store.lookup([key_of(number)])
                try:
                    data = b"".join(store.get(key_of((number + 3) % 6), "raw"))
                except NotFoundError:
                    continue
                if data != bitstream((number + 3) % 6, len(data)):
                    wrong.append(number)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails
            wrong.append(error)

    with FlightStore(server.uri) as shared, FlightStore(server.uri) as own:
        threads = [threading.Thread(target=work, args=(store, n)) for n, store in enumerate((shared, shared, own))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def calls(store: FlightStore) -> Iterator[None]:
    """Make one call of each kind, which has to fail; yields in between."""
    for call in (
        lambda: store.lookup([key_of(1)]),
        lambda: next(store.get(key_of(1), "raw")),
        lambda: store.put(key_of(1), "raw", bytes(3 * MIB)),
    ):
        with pytest.raises(StoreUnavailableError):
            call()
        yield


@pytest.mark.slow
def test_a_server_that_hangs(tmp_path: Path) -> None:
    """Every call ends after its timeout, also one in the middle of a transfer; afterwards all is as it was."""
    with (
        KvProcess(tmp_path) as server,
        FlightStore(server.uri, timeout=1.0) as store,
        FlightStore(server.uri) as patient,
    ):
        patient.put(key_of(1), "raw", bytes(64 * MIB))
        transfers = list[Iterator[memoryview]]()

        def begins() -> bool:
            transfers.append(store.get(key_of(1), "raw"))
            with suppress(StoreUnavailableError):  # a busy machine needs more than its second
                return bool(next(transfers[-1]))
            return False

        await_true(begins)
        server.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)  # it can answer once more before it stops
        try:
            for _ in calls(store):
                pass
            with pytest.raises(StoreUnavailableError, match="within 1 seconds"):
                list(transfers[-1])
        finally:
            server.process.send_signal(signal.SIGCONT)
        await_true(lambda: answers(store))
        assert sum(map(len, patient.get(key_of(1), "raw"))) == 64 * MIB


def answers(store: FlightStore) -> bool:
    """Return whether a server answers."""
    try:
        store.lookup([key_of(1)])
    except StoreUnavailableError:
        return False
    return True


def test_one_that_takes_connections_and_says_nothing() -> None:
    """The timeout holds for the first connection too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"grpc://127.0.0.1:{silent.getsockname()[1]}"
        for _ in calls(FlightStore(uri, timeout=0.5)):
            pass


@pytest.mark.timeout(300)  # no call waits for its own
def test_a_server_that_dies_and_comes_back(tmp_path: Path) -> None:
    """A transfer breaks off with an error, calls fail at once, and go on where another one listens there."""
    with KvProcess(tmp_path) as server, FlightStore(server.uri, timeout=600.0) as store:
        store.put(key_of(1), "raw", bitstream(1, 64 * MIB))
        parts = store.get(key_of(1), "raw")
        next(parts)
        server.process.kill()
        with pytest.raises(StoreUnavailableError):
            list(parts)
        for _ in calls(store):
            pass
        with KvProcess(tmp_path, listen=urlsplit(server.uri).netloc):
            await_true(lambda: answers(store))
            assert b"".join(store.get(key_of(1), "raw")) == bitstream(1, 64 * MIB)


def test_another_kind_of_server(tmp_path: Path) -> None:
    """A SQL server is no store of KV chunks, and the error says where that is."""
    with serving(tmp_path, LimitsConfig()) as server, FlightStore(server.uri) as store:
        with pytest.raises(StoreUnavailableError, match=str(server.port)):
            store.lookup([key_of(1)])
        with pytest.raises(StoreUnavailableError):
            store.status()
    with serving_chunks(tmp_path / "kv") as kvserver, Client(kvserver.uri) as client, pytest.raises(FlightLLMError):
        client.query("SELECT 1")


def test_closed(store: FlightStore) -> None:
    """Whoever calls afterwards is told."""
    store.close()
    store.close()
    for _ in calls(store):
        pass


def test_wrong_arguments(tmp_path: Path) -> None:
    """An address that is none, no time at all, and certificates that are not there."""
    with pytest.raises(InvalidInputError, match="grpc://HOST:PORT"):
        FlightStore("localhost")
    with pytest.raises(InvalidInputError, match="timeout"):
        FlightStore("grpc://localhost:1", timeout=0)
    with pytest.raises(ConfigError, match="certificates"):
        FlightStore("grpc+tls://localhost:1", tls_ca=tmp_path / "none.pem")
