"""The Flight service of a store: what it answers, to whom, and what it refuses."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from pyarrow import flight

from flightllm.access.control import open_access
from flightllm.access.store import User
from flightllm.config import Config, KvStoreConfig, ServerConfig
from flightllm.errors import ConfigError, FlightLLMError, StoreUnavailableError
from flightllm.kvcache.store.client import FlightStore
from flightllm.kvcache.store.messages import DATA, batch_of, packed, parts_of
from flightllm.server.kv_serve import open_server
from flightllm.server.kv_server import KvServer
from tests.certificates import certified_config
from tests.chunks import bitstream, key_of
from tests.kv_servers import MIB, serving_chunks
from tests.servers import await_true

PASSWORD = "a long password"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KvServer]:
    """Serve an empty store that asks nobody."""
    with serving_chunks(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: KvServer) -> Iterator[flight.FlightClient]:
    """Connect a client of pyarrow's own, which may send anything."""
    with flight.FlightClient(server.uri) as client:
        yield client


def files(folder: Path) -> list[Path]:
    """Return the files of bitstreams that there are."""
    return list(folder.glob("kvstore/chunks/*/*"))


def send(client: flight.FlightClient, size: int, parts: list[bytes], schema: pa.Schema = DATA) -> None:
    """Put a bitstream of `size` bytes, so it is said, in these parts."""
    about = flight.FlightDescriptor.for_command(packed(key=key_of(1), codec="raw", bytes=size))
    writer, _ = client.do_put(about, schema)
    with writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array([part], schema.types[0])], schema=schema))


def test_batches_are_small(server: KvServer, client: flight.FlightClient) -> None:
    """A bitstream comes as batches of one column `data`, none with more than 1 MiB."""
    with FlightStore(server.uri) as store:
        store.put(key_of(1), "raw", bitstream(1, 3 * MIB + 1))
    table = client.do_get(flight.Ticket(packed(key=key_of(1), codec="raw"))).read_all()
    assert table.schema == DATA
    assert [batch.nbytes <= MIB + 8 for batch in table.to_batches()] == [True] * 4
    assert b"".join(table["data"].to_pylist()) == bitstream(1, 3 * MIB + 1)


@pytest.mark.parametrize("parts", [[], [b"ab"], [b"ab", b"cde"]], ids=["none", "few", "many"])
def test_another_size_than_announced(server: KvServer, tmp_path: Path, client: flight.FlightClient, parts: list[bytes]) -> None:  # fmt: skip  # noqa: E501
    """Nothing is stored of an upload that ends early, or goes on."""
    del server
    with pytest.raises(pa.ArrowInvalid, match="it is not kept"):
        send(client, 4, parts)
    assert files(tmp_path) == []


UPLOADER = """
import sys
from pyarrow import flight
from flightllm.kvcache.store.messages import DATA, batch_of, packed
from tests.chunks import key_of
client = flight.FlightClient(sys.argv[1])
about = flight.FlightDescriptor.for_command(packed(key=key_of(1), codec="raw", bytes=3 << 20))
writer, _ = client.do_put(about, DATA)
writer.write_batch(batch_of(memoryview(bytes(1 << 20))))
print("half", flush=True)
sys.stdin.read()
"""


def test_a_client_killed_while_it_uploads(server: KvServer, tmp_path: Path) -> None:
    """What had come of it goes again."""
    command = [sys.executable, "-c", UPLOADER, server.uri]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        await_true(lambda: len(files(tmp_path)) == 1)
        process.kill()
    await_true(lambda: files(tmp_path) == [])
    with FlightStore(server.uri) as store:
        assert store.lookup([key_of(1)]) == [{}]


@pytest.mark.parametrize("data", [pa.array([None], pa.binary()), pa.array(["text"])], ids=["null", "text"])
def test_what_is_no_bitstream(server: KvServer, tmp_path: Path, client: flight.FlightClient, data: pa.Array) -> None:
    """Columns of another type, and NULL, are refused with what to send."""
    del server
    schema = pa.schema([("data", data.type)])
    about = flight.FlightDescriptor.for_command(packed(key=key_of(1), codec="raw", bytes=4))
    writer, _ = client.do_put(about, schema)
    writer.write_batch(pa.record_batch([data], schema=schema))
    with pytest.raises(pa.ArrowInvalid, match="one column 'data' of bytes"):
        writer.close()
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "the call names no chunks"),
        (b'{"keys": "abc"}', "the call names no chunks"),
        (b'{"keys": [1]}', "not a key of a KV chunk"),
        (json.dumps({"keys": ["../x"]}).encode(), "not a key of a KV chunk"),
    ],
)
def test_wrong_requests(server: KvServer, client: flight.FlightClient, message: bytes, expected: str) -> None:
    """Each is answered with what is wrong, never with a traceback."""
    del server
    for action in ("lookup", "delete"):
        with pytest.raises(pa.ArrowInvalid, match=expected) as raised:
            list(client.do_action(flight.Action(action, message)))
        assert ".py" not in str(raised.value)


def test_wrong_names(server: KvServer, client: flight.FlightClient) -> None:
    """Names of which paths cannot be made safely are refused, and so are unknown actions and sizes that are none."""
    del server
    for key, codec in (("../../x", "raw"), (key_of(1), "../x"), (None, "raw"), (key_of(1), 7)):
        with pytest.raises(pa.ArrowInvalid):
            client.do_get(flight.Ticket(packed(key=key, codec=codec))).read_all()
    for size in (-1, 1.5, "4", None, True):
        writer, _ = client.do_put(
            flight.FlightDescriptor.for_command(packed(key=key_of(1), codec="raw", bytes=size)), DATA
        )
        with pytest.raises(pa.ArrowInvalid, match="must have its size"):
            writer.close()
    with pytest.raises(pa.ArrowNotImplementedError, match="lookup, status, delete"):
        list(client.do_action(flight.Action("drop", b"")))
    with pytest.raises(pa.ArrowKeyError):
        client.do_get(flight.Ticket(packed(key=key_of(1), codec="raw"))).read_all()


def test_actions_are_listed(server: KvServer, client: flight.FlightClient) -> None:
    """Each with what to send."""
    del server
    assert [action.type for action in client.list_actions()] == ["lookup", "status", "delete"]


def everything(store: FlightStore) -> None:
    """Make every kind of call."""
    store.put(key_of(1), "raw", b"abc")
    assert store.lookup([key_of(1)]) == [{"raw": 3}]
    assert b"".join(store.get(key_of(1), "raw")) == b"abc"
    assert store.status().chunks == 1
    assert store.delete([key_of(1)]) == 1


def nothing(store: FlightStore, why: str) -> None:
    """Make every kind of call, each of which is refused."""
    for call in (
        lambda: store.put(key_of(1), "raw", b"abc"),
        lambda: store.lookup([key_of(1)]),
        lambda: list(store.get(key_of(1), "raw")),
        store.status,
        store.clear,
    ):
        with pytest.raises(StoreUnavailableError, match=why):
            call()


def test_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server has a token, who does not send it is refused everything."""
    monkeypatch.setenv("KV_TOKEN", "the secret")
    with serving_chunks(tmp_path, ServerConfig(token="env:KV_TOKEN")) as server:
        with FlightStore(server.uri, token="the secret") as store:
            everything(store)
        with FlightStore(server.uri, login=("anybody", "the secret")) as store:
            everything(store)
        for token in (None, "another", "flightllm_x", "login.x.y"):
            with FlightStore(server.uri, token=token) as store:
                nothing(store, "asks who you are")
    assert files(tmp_path) == []


@pytest.mark.slow
def test_users(tmp_path: Path) -> None:
    """Admins may do everything, by password and API token; other users, and wrong passwords, nothing."""
    with closing(open_access(Config(data_folder=tmp_path))) as access:
        access.store.add_user(User("root", "admin"), PASSWORD)
        access.store.add_user(User("ann", "user"), PASSWORD)
        api_token = access.store.add_token("root")
        with serving_chunks(tmp_path) as server:
            with FlightStore(server.uri, login=("root", PASSWORD)) as store:
                everything(store)
            with FlightStore(server.uri, token=api_token) as store:
                everything(store)
            with FlightStore(server.uri, login=("ann", PASSWORD)) as store:
                nothing(store, "only admins can use a KV store")
            for login in (None, ("root", "wrong password"), ("nobody", PASSWORD)):
                with FlightStore(server.uri, login=login) as store:
                    nothing(store, "asks who you are")
            access.store.change_user(User("root", "user"))
            with FlightStore(server.uri, token=api_token) as store:
                nothing(store, "only admins can use a KV store")


def test_tls(tmp_path: Path) -> None:
    """With the server's certificate it speaks TLS, to who trusts it, and no plain text."""
    authority = trustme.CA()
    with serving_chunks(tmp_path, certified_config(tmp_path, authority)) as server:
        assert server.uri.startswith("grpc+tls://")
        uri = f"grpc+tls://localhost:{server.port}"
        with FlightStore(uri, tls_ca=tmp_path / "authority.pem") as store:
            everything(store)
        with FlightStore(uri) as store:
            nothing(store, "no trusted TLS certificate")
        with FlightStore(uri.replace("+tls", "")) as store:
            nothing(store, "no KV store answers")


@pytest.mark.parametrize(("tls", "why"), [(False, "without TLS"), (True, "anybody there would be an admin")])
def test_exposure(tmp_path: Path, tls: bool, why: str) -> None:
    """Beyond this machine it listens with TLS and users alone, unless that is said to be meant; the folder is free."""
    server = certified_config(tmp_path, trustme.CA()) if tls else ServerConfig()
    config = Config(server=server, kvstore=KvStoreConfig("0.0.0.0:0"), data_folder=tmp_path)
    with closing(open_access(config)) as access, pytest.raises(ConfigError, match=rf"\[kvstore\] listen.*{why}"):
        open_server(config, access.login)
    with serving_chunks(tmp_path, ServerConfig(insecure=True)):
        pass


def test_an_address_in_use(server: KvServer, tmp_path: Path) -> None:
    """It says which, and that of which setting."""
    kept = KvStoreConfig(f"127.0.0.1:{server.port}", folder=tmp_path / "other")
    config = Config(kvstore=kept, data_folder=tmp_path)
    with (
        closing(open_access(config)) as access,
        pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{server.port}.*\[kvstore\] listen"),
    ):
        open_server(config, access.login)


def test_stop_ends_what_runs(tmp_path: Path) -> None:
    """A client that is being sent to is told so; the store's folder is free for the next server."""
    with serving_chunks(tmp_path, max_bytes=100 * MIB) as server, FlightStore(server.uri) as store:
        store.put(key_of(1), "raw", bitstream(1, 64 * MIB))
        parts = store.get(key_of(1), "raw")
        next(parts)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        with pytest.raises(FlightLLMError):
            list(parts)
        stopping.join()
    with serving_chunks(tmp_path, max_bytes=100 * MIB) as server, FlightStore(server.uri) as store:
        assert store.lookup([key_of(1)]) == [{"raw": 64 * MIB}]


def test_a_part_travels_uncopied() -> None:
    """The batch has the bytes where they were, and gives them out from there; a slice of one gives its own."""
    part = memoryview(b"abc")
    batch = batch_of(part)
    assert batch.column(0).buffers()[2].address == pa.py_buffer(part).address
    [back] = parts_of(batch)
    assert pa.py_buffer(back).address == pa.py_buffer(part).address
    several = pa.record_batch([pa.array([b"ab", b"", b"cde", b"f"])], schema=DATA)
    assert [bytes(one) for one in parts_of(several.slice(1, 2))] == [b"", b"cde"]
    assert list(parts_of(several.slice(0, 0))) == []
