"""A store of KV chunks beside the SQL server, in its process."""

import re
from pathlib import Path

import pytest

from flightllm.errors import StoreUnavailableError
from flightllm.kvcache.store.client import FlightStore
from tests.chunks import bitstream, key_of
from tests.servers import SupervisedServer, await_true

SETTINGS = """
[kvstore]
listen = "127.0.0.1:0"
max_bytes = 1000
[engine]
kind = "fake"
[recovery]
drain_seconds = 1
"""
_SERVING = re.compile(r"serving KV caches.*uri=(\S+)")


def uris(server: SupervisedServer) -> list[str]:
    """Return the addresses at which the server's processes served their store, in order."""
    return _SERVING.findall(re.sub(r"\x1b\[[0-9;]*m", "", server.log.read_text()))


def test_beside_the_sql_server(tmp_path: Path) -> None:
    """It listens when the server does, keeps its chunks in the data folder, and ends with the server."""
    with SupervisedServer(tmp_path, SETTINGS) as server:
        [uri] = uris(server)
        with FlightStore(uri) as store:
            store.put(key_of(1), "raw", bitstream(1, 500))
            assert store.status().max_bytes == 1000
            assert server.query("SELECT 1") == [(1,)]
            assert len(list((tmp_path / "data" / "kvstore" / "chunks").glob("*/*"))) == 1
            assert server.stop() == 0
            with pytest.raises(StoreUnavailableError):
                store.lookup([key_of(1)])


@pytest.mark.slow
def test_the_server_s_process_is_killed(tmp_path: Path) -> None:
    """The one that takes its place has the chunks."""
    with SupervisedServer(tmp_path, SETTINGS) as server:
        with FlightStore(uris(server)[0]) as store:
            store.put(key_of(1), "raw", bitstream(1, 500))
        server.kill_worker()
        await_true(lambda: len(uris(server)) == 2)
        with FlightStore(uris(server)[1]) as store:
            assert b"".join(store.get(key_of(1), "raw")) == bitstream(1, 500)


@pytest.mark.slow
def test_it_asks_as_the_server_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the token of [server], nobody else gets in."""
    monkeypatch.setenv("SERVER_TOKEN", "the secret")
    with SupervisedServer(tmp_path, f'{SETTINGS}[server]\ntoken = "env:SERVER_TOKEN"\n') as server:
        [uri] = uris(server)
        with FlightStore(uri) as store, pytest.raises(StoreUnavailableError, match="asks who you are"):
            store.status()
        with FlightStore(uri, token="the secret") as store:
            assert store.status().chunks == 0


@pytest.mark.slow
def test_off_without_listen(tmp_path: Path) -> None:
    """Nothing is served, and no folder made."""
    with SupervisedServer(tmp_path) as server:
        assert server.query("SELECT 1") == [(1,)]
        assert uris(server) == []
        assert not (tmp_path / "data" / "kvstore").exists()


@pytest.mark.slow
def test_a_wrong_setting(tmp_path: Path) -> None:
    """The server does not start, and says what is wrong."""
    settings = SETTINGS.replace("127.0.0.1:0", "0.0.0.0:0")
    with SupervisedServer(tmp_path, settings) as server:
        assert server.process.wait(60) == 1
        assert re.search(r"error: \[kvstore\] listen.*without TLS", server.log.read_text())
