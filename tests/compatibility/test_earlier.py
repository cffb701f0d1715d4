"""Data folders and KV chunks that earlier versions wrote, opened and read by this one; `make.py` made them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest

from flightllm.access.store import AccessStore, User
from flightllm.client import Client
from flightllm.common.cached import cached_property
from flightllm.config import Config, EmbeddingConfig, EngineConfig, ServerConfig
from flightllm.errors import NotFoundError, PermissionDeniedError, StoreUnavailableError, UnauthenticatedError
from flightllm.flight.server import FlightSqlServer
from flightllm.kvcache.store.client import FlightStore
from flightllm.kvcache.store.disk import DiskStore
from flightllm.session.database import Database
from tests.kv_servers import KvProcess
from tests.packages import needs

EARLIER: Final = sorted(path for path in (Path(__file__).parent / "data").iterdir() if (path / "made.json").exists())
NEAR: Final = {"raw": 0.0, "int8": 0.01, "cachegen-2": 0.5}
"""How far a codec's numbers are from those that were kept, at most: the mean distance by their mean size."""
ASKED_AGAIN: Final = frozenset({"extracted", "scored"})
"""Questions whose kept answers no longer count.

Those of `extracted` could be cut without an error, because those versions bounded named fields in the prompt. Those of
`scored` are the most probable numbers, without the probabilities of the others.
"""
vector = needs("faiss", "tantivy", extra="vector")
kvcache = needs("numba", extra="kvcache")
local = needs("transformers", extra="local")


@dataclass(frozen=True)
class Earlier:
    """A copy of a version's folder, which tests can change, and what that version answered."""

    place: Path
    copy: Path

    @cached_property
    def made(self) -> dict[str, Any]:
        """Return passwords, the token, the questions, and which tokens the KV chunk is of."""
        made: dict[str, Any] = json.loads((self.place / "made.json").read_text(encoding="utf-8"))
        return made

    def answer(self, name: str) -> pa.Table:
        """Return the rows that the version gave to a question."""
        with pa.ipc.open_file(self.place / "answers" / f"{name}.arrow") as file:
            return file.read_all()

    @property
    def log(self) -> Path:
        """Return the file of the prompts that the engine got, which is there where it got some."""
        return self.copy.parent / "prompts.jsonl"

    @contextmanager
    def opened(self) -> Iterator[FlightSqlServer]:
        """Serve the copy in this process."""
        config = Config(
            engine=EngineConfig("fake", options={"log_path": str(self.log)}),
            embedding=EmbeddingConfig("fake", options={"dimensions": 8}),
            data_folder=self.copy,
        )
        database = Database.open(config)
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), config.limits, login=database.access.login)
        try:
            yield server
        finally:
            server.drain(0)
            database.close()

    def client(self, server: FlightSqlServer, user: str) -> Client:
        """Log in by password."""
        return Client(server.uri, login=(user, self.made["passwords"][user]))

    def check(self, server: FlightSqlServer, *, searches: bool) -> None:
        """Ask all questions about indexes, or all others; their rows must be as they were, and no prompt sent."""
        about_indexes = ("_search(", "vector_indexes")
        questions = [
            one
            for one in self.made["questions"]
            if any(part in one["sql"] for part in about_indexes) == searches and one["name"] not in ASKED_AGAIN
        ]
        assert questions
        for user in sorted({one["user"] for one in questions}):
            login = {"username": user, "password": self.made["passwords"][user]}
            with flight_sql.connect(server.uri, db_kwargs=login, autocommit=True) as connection:
                for one in questions:
                    if one["user"] == user:
                        with connection.cursor() as cursor:
                            cursor.execute(one["sql"])
                            check_same(one["name"], cursor.fetch_arrow_table(), self.answer(one["name"]))
        assert not self.log.exists(), f"asked again: {self.log.read_text()}"


@pytest.fixture(params=EARLIER, ids=lambda path: path.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Earlier:
    """Copy what one version wrote."""
    shutil.copytree(request.param / "folder", tmp_path / "data")
    return Earlier(request.param, tmp_path / "data")


def check_same(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Compare names, types and rows; NaN is itself."""
    assert found.schema.names == expected.schema.names, name
    assert found.schema.types == expected.schema.types, name
    for column in found.column_names:
        one, other = found[column], expected[column]
        same = one.equals(other) or (pa.types.is_floating(one.type) and str(one.to_pylist()) == str(other.to_pylist()))
        assert same, f"{name}, column {column}: {one} is not {other}"


def rows(client: Client, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    return [tuple(row.values()) for batch in client.query(sql)[1] for row in batch.to_pylist()]


def test_every_row_is_there(earlier: Earlier) -> None:
    """Tables of all types, views, users, grants, models and prompts are as they were; cached answers are not asked."""
    with earlier.opened() as server:
        earlier.check(server, searches=False)
    assert not list(earlier.copy.glob("*damaged*"))


@vector
def test_indexes_find_and_grow(earlier: Earlier) -> None:
    """Each kind of index finds what it found, and takes up one more row."""
    with earlier.opened() as server:
        earlier.check(server, searches=True)
        with earlier.client(server, "root") as root:
            rows(root, "INSERT INTO docs VALUES (7, 'a purple plum', [0.0, 0.0, 0.0, -2.0])")
            for index in ("names", "graph", "places"):
                rows(root, f"REFRESH VECTOR INDEX {index}")
            found = rows(root, "SELECT name, rows, status FROM system.vector_indexes ORDER BY name")
            assert found == [("graph", 6, "ready"), ("names", 6, "ready"), ("places", 6, "ready")]
            for search in (
                "vector_search('names', 'purple plum', top_k => 1)",
                "vector_search('graph', 'purple plum', top_k => 1)",
                "vector_search('places', [0.0, 0.0, 0.0, -1.0], top_k => 1)",
                "text_search('names', 'plums')",
            ):
                assert rows(root, f"SELECT id FROM {search}") == [(7,)], search
            assert rows(root, "SELECT id FROM text_search('names', 'pears')") == [(2,)]


def test_users_and_rights_hold(earlier: Earlier) -> None:
    """Passwords and the token let in who had them, nobody else, and rights are as they were granted."""
    token = earlier.made["token"]
    with earlier.opened() as server:
        with Client(server.uri, {"authorization": f"Bearer {token['text']}"}) as service:
            assert rows(service, "SELECT current_user") == [(token["user"],)]
        with pytest.raises(UnauthenticatedError):
            Client(server.uri, login=("root", "another password"))
        with Client(server.uri) as nobody, pytest.raises(UnauthenticatedError):
            nobody.query("SELECT 1")
        with earlier.client(server, "ann") as ann:
            rows(ann, "INSERT INTO changed VALUES (24, 'of ann')")
            assert rows(ann, "SELECT text FROM changed WHERE id = 24") == [("of ann",)]
            for sql in ("DELETE FROM changed", "SELECT * FROM docs", "DROP TABLE notes"):
                with pytest.raises((PermissionDeniedError, NotFoundError)):
                    rows(ann, sql)
        with earlier.client(server, "bob") as bob:
            assert rows(bob, 'SELECT "Id" FROM shop."Odd Name"') == [(1,)]
            with pytest.raises((PermissionDeniedError, NotFoundError)):
                rows(bob, "CREATE TABLE mine AS SELECT 1 AS a")


def test_everything_can_be_changed(earlier: Earlier) -> None:
    """Tables, views, prompts, users and grants take changes, which are there at the next start, as is the rest."""
    with closing(AccessStore(earlier.copy / "access.sqlite")) as store:
        store.add_user(User("carl", "readonly"), "a long password")
    with earlier.opened() as server, earlier.client(server, "root") as root:
        for sql in (
            "INSERT INTO kinds SELECT * FROM kinds WHERE id = 1",
            "INSERT INTO odd SELECT * FROM odd WHERE id = 3",
            "UPDATE kinds SET text = 'new' WHERE id = 3",
            "DELETE FROM odd WHERE id = 2",
            "INSERT INTO empty VALUES (1, 'x', 1.5)",
            "CREATE OR REPLACE VIEW per_kind AS SELECT count(*) AS n FROM notes",
            "CREATE OR REPLACE PROMPT drinks AS 'Third? {text}'",
            "GRANT SELECT ON TABLE docs TO carl",
        ):
            rows(root, sql)
    with earlier.opened() as server:
        with earlier.client(server, "root") as root:
            assert rows(root, "SELECT id, text FROM kinds ORDER BY id") == [(1, ""), (1, ""), (2, None), (3, "new")]
            assert rows(root, "SELECT id, words FROM odd ORDER BY id") == [(1, ["x", None]), (3, []), (3, [])]
            assert rows(root, "SELECT id, text FROM empty") == [(1, "x")]
            assert rows(root, "SELECT n FROM per_kind") == [(5,)]
            assert rows(root, "SELECT max(version) FROM system.prompts") == [(3,)]
            assert rows(root, "SELECT count(*) FROM changed") == [(20,)]
        with Client(server.uri, login=("carl", "a long password")) as carl:
            assert rows(carl, "SELECT count(*) FROM docs") == [(6,)]


@pytest.mark.slow
@kvcache
@local
def test_kv_chunks_are_served(earlier: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store on the folder gives an engine the chunk under the key of its tokens, and each codec can be decoded."""
    import torch

    from flightllm.common.package_data import demo_model
    from flightllm.kvcache.codec import open_codec
    from flightllm.kvcache.options import KvOptions
    from flightllm.kvcache.prefix_saver import PrefixSaver
    from flightllm.kvcache.profile.place import profile_path
    from flightllm.kvcache.stream.items import Loaded
    from flightllm.kvcache.stream.prefill import Prefill
    from flightllm.llm.cost import Rates
    from flightllm.llm.engine import cache_salt

    chunk, token = chunk_of(earlier), earlier.made["token"]["text"]
    monkeypatch.setenv("STORE_TOKEN", token)
    with KvProcess(earlier.copy.parent) as served:
        with FlightStore(served.uri) as nobody, pytest.raises(StoreUnavailableError, match="asks who you are"):
            nobody.status()
        options = KvOptions(
            served.uri, "env:STORE_TOKEN", codec="raw", codecs=tuple(NEAR), prefill_tokens_per_second=1.0
        )
        with closing(
            PrefixSaver(options, chunk["revision"], demo_model(), Prefill(Rates(computed=1.0)), "cpu")
        ) as keeper:
            start = keeper.start(chunk["tokens"], len(chunk["tokens"]), cache_salt(""))
            [loaded] = keeper.load(start, 0)
            assert isinstance(loaded, Loaded)
            assert (loaded.chunk.key, loaded.codec) == (chunk["key"], "raw")
            kept = torch.stack(list(loaded.layers))
        with FlightStore(served.uri, token=token) as store:
            [held] = store.lookup([chunk["key"]])
            assert set(held) == set(NEAR)
            for name, most in NEAR.items():
                data = b"".join(store.get(chunk["key"], name))
                found = torch.stack(list(open_codec(name, profile_path(demo_model())).layers(data)))
                assert (len(data), found.shape) == (held[name], kept.shape)
                assert float((found - kept).abs().mean() / kept.abs().mean()) <= most, name
            assert store.status().damaged == 0


@kvcache
@local
@pytest.mark.slow
def test_kv_chunks_are_what_the_model_computes(earlier: Earlier) -> None:
    """The engine names its model as it did, and the model computes the numbers that were kept exactly."""
    import torch
    from transformers import AutoModelForCausalLM

    from flightllm.common.package_data import demo_model
    from flightllm.engines.local.engine import create
    from flightllm.kvcache.codec.raw import RawCodec
    from tests.kvcaches import model_cache

    chunk = chunk_of(earlier)
    with closing(create(EngineConfig("local", "demo"))) as engine:
        assert engine.revision == chunk["revision"]
    with DiskStore(earlier.copy / "kvstore", 1 << 30) as store:
        kept = torch.stack(list(RawCodec().layers(b"".join(store.get(chunk["key"], "raw")))))
    loader: Any = AutoModelForCausalLM
    computed = model_cache(loader.from_pretrained(demo_model()).eval(), torch.tensor([chunk["tokens"]]))
    assert torch.allclose(computed, kept, rtol=1e-3, atol=1e-4)  # machines add up in other orders


def chunk_of(earlier: Earlier) -> dict[str, Any]:
    """Return what is known of the KV chunk; skip the test where the demo model is another one by now."""
    from flightllm.common.package_data import demo_model

    chunk: dict[str, Any] = earlier.made["chunk"]
    for name, digest in chunk["files"].items():
        if sha256((demo_model() / name).read_bytes()).hexdigest() != digest:
            pytest.skip(f"{name} of the demo model is another one than that of the chunk: make a newer folder")
    return chunk
