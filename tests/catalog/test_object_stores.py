"""Tables in an object store, read from a real S3-compatible server in this process."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.config import Config, EngineConfig, ObjectStoreConfig, StorageConfig
from flightllm.errors import ConfigError, FlightLLMError, PermissionDeniedError
from flightllm.session.database import Database
from tests.databases import ask, rows

moto_server = pytest.importorskip("moto.server", reason="the extra 'test' is not installed")
SECRET = "wJalrXUtnFEMI-not-a-real-key"
TABLE = pa.table({"id": [1, 2, 3], "s": ["a", "b", None]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Return the address of a server with a bucket of two folders and a file."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    parquet = sink.getvalue().to_pybytes()
    lines = "\n".join(json.dumps(row) for row in TABLE.to_pylist()).encode()
    put(f"{address}/lake", b"")
    for name in ("open/logs/1.parquet", "open/logs/2.parquet", "closed/secret.parquet"):
        put(f"{address}/lake/{name}", parquet)
    put(f"{address}/lake/open/lines.json", lines)
    yield address
    server.stop()


def put(address: str, content: bytes) -> None:
    """Store an object, or make a bucket."""
    headers = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request",
        "Content-Type": "application/octet-stream",
    }
    request = urllib.request.Request(address, content, headers, method="PUT")  # noqa: S310 -- our own server
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        assert answer.status == 200


@pytest.fixture
def config(tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Return a configuration that lists a part of the bucket, its keys by reference, and one table in it."""
    monkeypatch.setenv("LAKE_KEY", "test-key")
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    path = tmp_path / "flightllm.toml"
    path.write_text(f"""
data_folder = "data"
[engine]
kind = "fake"
[tables]
logs = "s3://lake/open/logs/"
[storage.object_stores.lake]
url = "s3://lake/open"
endpoint = "{endpoint}"
allow_http = true
access_key_id = "env:LAKE_KEY"
secret_access_key = "file:{tmp_path}/secret"
""")
    return Config.load(path)


def test_tables_of_the_configuration(config: Config) -> None:
    """A folder of objects is read, in AI queries too; neither keys nor the service's address are shown anywhere."""
    opened = Database.open(config)
    session = opened.session()
    assert rows(session, "SELECT count(*) AS n, max(s) AS s FROM logs WHERE id > 1") == [{"n": 4, "s": "b"}]
    assert ask(session, "SELECT ai_gen('say', s) AS g FROM logs WHERE s = 'a'").table.num_rows == 2
    assert SECRET not in repr(config)
    for sql in ("EXPLAIN SELECT * FROM logs", "SHOW ALL", "SELECT * FROM information_schema.df_settings"):
        shown = str(rows(session, sql))
        assert SECRET not in shown
        assert "test-key" not in shown
    opened.close()


def test_external_tables(config: Config) -> None:
    """An admin makes tables of what is listed, of nothing else; they outlive the server; a lost store is an error."""
    opened = Database.open(config)
    session = opened.session()
    session.update("CREATE EXTERNAL TABLE lines STORED AS JSON LOCATION 's3://lake/open/lines.json'")
    for address in ("s3://lake/closed/secret.parquet", "s3://lake/open/../closed/secret.parquet", "s3://other/x.parquet",
                    "s3://lake/open/.\t./closed/secret.parquet",
                    "s3://lake/open/%2e%2e/closed/secret.parquet", "s3://lake/openness/x.parquet"):  # fmt: skip
        with pytest.raises(PermissionDeniedError, match="no object store in"):
            session.update(f"CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{address}'")
    with pytest.raises(FlightLLMError, match=r"no object whose name ends in one of \.parquet"):
        session.update("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 's3://lake/open/none/'")
    opened.close()
    opened = Database.open(config)
    assert (
        rows(opened.session(), "SELECT l.s FROM lines l JOIN logs ON l.id = logs.id WHERE l.id = 2") == [{"s": "b"}] * 2
    )
    opened.close()


@pytest.mark.slow
def test_a_store_out_of_reach(config: Config, tmp_path: Path) -> None:
    """An external table in a store that is gone does not keep the server from starting; its error tells no address."""
    opened = Database.open(config)
    opened.session().update("CREATE EXTERNAL TABLE lines STORED AS JSON LOCATION 's3://lake/open/lines.json'")
    opened.close()
    gone = ObjectStoreConfig("s3://lake", endpoint="http://127.0.0.1:1", allow_http=True, access_key_id="env:LAKE_KEY",
                             secret_access_key=f"file:{tmp_path}/secret")  # fmt: skip
    opened = Database.open(
        Config(engine=EngineConfig("fake"), data_folder=config.data_folder, storage=StorageConfig((), {"lake": gone}))
    )
    with pytest.raises(FlightLLMError, match="damaged or unreachable") as raised:
        rows(opened.session(), "SELECT * FROM lines")
    assert "127.0.0.1" not in str(raised.value)
    opened.close()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("url = 'https://b'", "expected s3://BUCKET"),
        (
            "url = 's3://b'\naccess_key_id = 'AKIA'",
            "access_key_id: write env:NAME or file:PATH",
        ),
        ("url = 's3://b'\naccess_key_id = 'env:X'", "set both or neither"),
        ("url = 's3://b'\nendpoint = 'http://x'", "set allow_http"),
        ("url = 's3://b'\nregoin = 'x'", "unknown key 'regoin' in .storage.object_stores.lake."),
        ("url = 's3://b'\n[storage.object_stores.two]\nurl = 's3://b/x'", "two sections name the bucket 'b'"),
    ],
)
def test_mistakes(tmp_path: Path, lines: str, message: str) -> None:
    """What is wrong about a store is said when the configuration is read."""
    path = tmp_path / "c.toml"
    path.write_text(f"[storage.object_stores.lake]\n{lines}\n")
    with pytest.raises(ConfigError, match=message):
        Config.load(path)


def test_a_key_that_is_not_there(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference to nothing keeps the server from starting, and is named."""
    monkeypatch.delenv("LAKE_KEY")
    assert "LAKE_KEY" not in os.environ
    with pytest.raises(ConfigError, match="set the environment variable LAKE_KEY"):
        Database.open(config)
