"""`flightllm kvstore` against real processes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner
from pyarrow import flight

from flightllm.access.store import AccessStore, User
from flightllm.cli import main
from flightllm.common.command_line import PASSWORD
from flightllm.kvcache.store.client import FlightStore
from flightllm.kvcache.store.messages import DATA, batch_of, packed
from tests.certificates import certified_config
from tests.chunks import key_of
from tests.kv_servers import KvProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KvProcess]:
    """Start a store of a thousand bytes."""
    with KvProcess(tmp_path, "--folder", str(tmp_path / "kv"), "--max-bytes", "1000") as server:
        yield server


def said(*arguments: str) -> tuple[int, str]:
    """Run `flightllm kvstore …`; return its exit code and output."""
    result = CliRunner().invoke(main, ["kvstore", *arguments])
    return result.exit_code, result.output


def test_status_and_clear(server: KvProcess, tmp_path: Path) -> None:
    """What the store holds, by codec; and after a clear nothing."""
    with FlightStore(server.uri) as store:
        for number in range(5):
            store.put(key_of(number), "raw", bytes(300))
        store.put(key_of(4), "cachegen-2", bytes(10))
        list(store.get(key_of(4), "raw"))
        store.lookup([key_of(0)])
    code, text = said("status", server.uri)
    lines = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert code == 0, text
    assert lines[-4:] == [
        "cachegen-2 1 10",
        "raw 3 900",
        "3 chunks, 910 of 1,000 bytes",
        "1 hits, 1 misses, 2 evicted, 0 damaged",
    ]
    assert len(list((tmp_path / "kv" / "chunks").glob("*/*"))) == 4
    assert said("clear", server.uri, "--yes") == (0, "deleted 4 bitstreams\n")
    assert said("status", server.uri)[1].startswith("0 chunks, 0 of 1,000 bytes\n")


def test_clear_asks(server: KvProcess) -> None:
    """Without --yes it asks, and without an answer does nothing."""
    with FlightStore(server.uri) as store:
        store.put(key_of(1), "raw", b"x")
        assert said("clear", server.uri)[0] == 1
        assert store.lookup([key_of(1)]) == [{"raw": 1}]


def test_the_address_from_the_environment(server: KvProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is set, none has to be given."""
    monkeypatch.setenv("FLIGHTLLM_KVSTORE_URI", server.uri)
    assert said("status")[0] == 0


def test_sigterm(server: KvProcess, tmp_path: Path) -> None:
    """It ends well, and what was put is there for the next one."""
    with FlightStore(server.uri) as store:
        store.put(key_of(1), "raw", b"abc")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    again = KvProcess(tmp_path, "--folder", str(tmp_path / "kv"))
    with again, FlightStore(again.uri) as store:
        assert b"".join(store.get(key_of(1), "raw")) == b"abc"


@pytest.mark.slow
@pytest.mark.parametrize("does", ["neither reads", "nor sends"])
def test_sigterm_with_a_client_that_hangs(tmp_path: Path, does: str) -> None:
    """The command ends all the same, well; half of an upload is gone when the store is opened next."""
    with KvProcess(tmp_path) as server, FlightStore(server.uri) as store, flight.FlightClient(server.uri) as client:
        store.put(key_of(1), "raw", bytes(64 << 20))
        if does == "neither reads":
            next(store.get(key_of(1), "raw"))
            hanging: object = client.do_get(flight.Ticket(packed(key=key_of(1), codec="raw")))
        else:
            about = flight.FlightDescriptor.for_command(packed(key=key_of(2), codec="raw", bytes=10))
            writer, hanging = client.do_put(about, DATA)
            writer.write_batch(batch_of(memoryview(b"half")))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        del hanging
    with KvProcess(tmp_path) as again, FlightStore(again.uri) as store:
        assert store.lookup([key_of(1), key_of(2)]) == [{"raw": 64 << 20}, {}]
        assert len(list((tmp_path / "data" / "kvstore" / "chunks").glob("*/*"))) == 1


@pytest.mark.slow
def test_what_is_wrong_is_one_line(server: KvProcess, tmp_path: Path) -> None:
    """A folder in use, an address that others reach, no server, a wrong token: each in a line, without a traceback."""
    config = tmp_path / "other.toml"
    config.write_text(f'data_folder = "{tmp_path}"\n[kvstore]\nfolder = "kv"\n')
    for arguments, expected in (
        (("serve", "--config", str(config), "--listen", "127.0.0.1:0"), "another process uses the folder"),
        (("serve", "--config", str(config), "--listen", "nowhere"), "[kvstore] listen: expected HOST:PORT"),
        (("serve", "--folder", str(tmp_path / "new"), "--listen", "0.0.0.0:0"), "without TLS"),
        (("status", "grpc://127.0.0.1:1"), "no KV store answers at grpc://127.0.0.1:1"),
        (("status", "127.0.0.1:1"), "write grpc://HOST:PORT"),
    ):
        command = [sys.executable, "-m", "flightllm", "kvstore", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.stderr
        assert result.stderr.startswith("error: ")
        assert expected in result.stderr
    assert server.process.poll() is None


@pytest.mark.slow
def test_tls_and_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate of [server], and the users of the data folder; the command line trusts by --tls-ca."""
    certified_config(tmp_path, trustme.CA())
    config = tmp_path / "tls.toml"
    config.write_text(
        f'data_folder = "{tmp_path}"\n[server]\ntls_certificate = "certificate.pem"\ntls_key = "key.pem"\n'
    )
    with closing(AccessStore(tmp_path / "access.sqlite")) as users:
        users.add_user(User("root", "admin"), "a long password")
    monkeypatch.setenv(PASSWORD, "a long password")
    with KvProcess(tmp_path, "--config", str(config)) as server:
        assert server.uri.startswith("grpc+tls://127.0.0.1:")
        trusted = ("--tls-ca", str(tmp_path / "authority.pem"))
        code, text = said("status", server.uri, "--user", "root", *trusted)
        assert (code, text.splitlines()[0]) == (0, "0 chunks, 0 of 10,737,418,240 bytes")
        assert "asks who you are" in said("status", server.uri, *trusted)[1]
        assert "has no trusted TLS certificate" in said("status", server.uri, "--user", "root")[1]


@pytest.mark.slow
def test_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own token is asked for, and given by --token or the environment."""
    monkeypatch.setenv("KV_TOKEN", "the secret")
    config = tmp_path / "token.toml"
    config.write_text(f'data_folder = "{tmp_path}"\n[server]\ntoken = "env:KV_TOKEN"\n')
    with KvProcess(tmp_path, "--config", str(config)) as server:
        assert "asks who you are" in said("status", server.uri)[1]
        assert said("status", server.uri, "--token", "the secret")[0] == 0
        monkeypatch.setenv("FLIGHTLLM_TOKEN", "the secret")
        assert said("status", server.uri)[0] == 0
