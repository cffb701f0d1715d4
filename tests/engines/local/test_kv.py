"""The local engine with a KV store: what one engine computed another one loads, and no store changes an answer."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from flightllm.common.package_data import demo_model
from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.errors import ConfigError, UnsupportedError
from flightllm.kvcache.codec import DEFAULT_CODEC
from flightllm.kvcache.codec.base import decode
from flightllm.kvcache.codec.container import seal, unseal
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.profile.place import profile_path
from flightllm.kvcache.store.client import FlightStore
from flightllm.kvcache.stream.base import TEXT_CHUNK, Situation
from flightllm.llm.engine import Choice, Completion, Parameters, Request
from flightllm.llm.tokenizer import PromptEncoder
from flightllm.server.kv_server import KvServer
from tests.kv_servers import MIB, KvProcess, serving_chunks

pytest.importorskip("torch", reason="the extra 'local' is not installed")
pytest.importorskip("numba", reason="the extra 'kvcache' is not installed")

import torch

from flightllm.engines.local.kv import KeptStarts
from flightllm.engines.local.model import PrefixModel
from flightllm.kvcache.codec.raw import RawCodec

MakeRequests = Callable[..., list[Request]]
PARAMETERS = (Parameters(max_tokens=6), Parameters(constraint=Choice(("Yes", "No"))))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KvServer]:
    """Return a running store."""
    with serving_chunks(tmp_path, max_bytes=64 * MIB) as server:
        yield server


@contextmanager
def keeping(uri: str, codec: str = "raw", **further: object) -> Iterator[Engine]:
    """Start an engine on the demo model that has a store, and takes computing to be slow; without an address, none."""
    given = {"prefill_tokens_per_second": 10.0, **further}
    options = {"kv_store": uri, "kv_codec": codec, "kv_options": given} if uri else {}
    engine = create_engine(EngineConfig("local", "demo", 8, {"device": "cpu", **options}))
    try:
        yield engine
    finally:
        engine.close()


def hinted(requests: list[Request]) -> list[Request]:
    """Say of each request how much of its start the next one has too, as the operator does."""
    found = [
        replace(one, recurs=shared_start(one.prompt, other.prompt)) for one, other in pairwise([*requests, requests[0]])
    ]
    return found if len(requests) > 1 else requests


def answers(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Answer requests, in their order."""
    return sorted(engine.generate(iter(requests), lambda: False), key=lambda one: one.id)


def texts(found: list[Completion]) -> list[str | None]:
    """Return the answers' texts."""
    return [one.text for one in found]


def cached(found: list[Completion]) -> int:
    """Return how many prompt tokens were not computed."""
    return sum(one.cached_tokens for one in found)


def held(store: KvServer) -> int:
    """Return of how many chunks a store holds anything."""
    with FlightStore(store.uri) as client:
        return client.status().chunks


@pytest.mark.slow
@pytest.mark.parametrize("parameters", PARAMETERS, ids=["text", "choice"])
def test_second_engine(store: KvServer, make_requests: MakeRequests, parameters: Parameters) -> None:
    """A fresh engine loads the start that another one computed, and answers the same."""
    requests = hinted(make_requests(8, parameters))
    with keeping("") as plain:
        wanted = texts(answers(plain, requests))
    with keeping(store.uri) as first:
        computed = answers(first, requests)
    assert held(store) > 0
    with keeping(store.uri) as second:
        loaded = answers(second, requests)
    assert texts(computed) == texts(loaded) == wanted
    assert cached(loaded) >= cached(computed) + 64


def test_lone_prompt(store: KvServer, make_requests: MakeRequests) -> None:
    """A prompt by itself is saved as far as it recurs, and loaded by a fresh engine."""
    one, other = make_requests(2)
    shared = shared_start(one.prompt, other.prompt)
    with keeping(store.uri) as first:
        computed = answers(first, [replace(one, recurs=shared)])
    with keeping("") as plain, keeping(store.uri) as second:
        loaded = answers(second, [replace(other, recurs=shared)])
        assert texts(loaded) == texts(answers(plain, [other]))
    assert cached(computed) == 0
    assert cached(loaded) >= 64


def test_what_is_saved(store: KvServer, make_requests: MakeRequests) -> None:
    """A prompt of which nothing recurs is not saved, unless all are; and nothing is where nothing is to be."""
    [request] = make_requests(1)
    with keeping(store.uri) as engine:
        answers(engine, [request])
    with keeping(store.uri, save="none") as engine:
        answers(engine, hinted(make_requests(4)))
    assert held(store) == 0
    with keeping(store.uri, save="all", chunk_tokens=32) as engine:
        answers(engine, [request])
    assert held(store) >= 3


@pytest.mark.slow
def test_default_codec(store: KvServer, make_requests: MakeRequests) -> None:
    """The default codec keeps a fraction of the bytes; the engine's revision says that answers may be others."""
    requests = hinted(make_requests(8))
    with keeping("") as plain, keeping(store.uri, "raw") as first, keeping(store.uri, "") as second:
        answers(first, requests)
        answers(second, requests)
        assert first.revision == plain.revision
        assert second.revision == f"{plain.revision} fast cachegen-2"
    with FlightStore(store.uri) as client:
        sizes = {codec: found.bytes for codec, found in client.status().codecs.items()}
    assert sizes["cachegen-2"] < sizes["raw"] / 8  # 32 bits a number
    with keeping(store.uri, "") as third:
        loaded = answers(third, requests)
    assert cached(loaded) >= 64
    assert all(loaded_text is not None for loaded_text in texts(loaded))


@pytest.mark.slow
def test_several_codecs(store: KvServer, make_requests: MakeRequests) -> None:
    """Chunks are kept in every codec asked for, and one of them is loaded."""
    requests = hinted(make_requests(8))
    with keeping(store.uri, "raw", codecs=["cachegen-4", "int8"]) as first:
        computed = answers(first, requests)
    with FlightStore(store.uri) as client:
        assert set(client.status().codecs) == {"raw", "int8", "cachegen-4"}
    with keeping(store.uri, "raw", codecs=["cachegen-4", "int8"]) as second:
        assert cached(answers(second, requests)) > cached(computed)


def test_tenants(store: KvServer, make_requests: MakeRequests) -> None:
    """What one tenant's prompts left is not loaded for another's."""
    requests = hinted(make_requests(4))
    with keeping(store.uri) as first:
        computed = answers(first, [replace(one, tenant="anna") for one in requests])
    with keeping(store.uri) as second:
        other = answers(second, [replace(one, tenant="bert") for one in requests])
    with keeping(store.uri) as third:
        same = answers(third, [replace(one, tenant="anna") for one in requests])
    assert cached(other) == cached(computed) < cached(same)


@pytest.mark.slow
def test_store_gone(tmp_path: Path, make_requests: MakeRequests) -> None:
    """Engines whose store was killed compute, and answer the same."""
    requests = hinted(make_requests(8))
    with KvProcess(tmp_path) as process:
        with keeping(process.uri) as first:
            wanted = texts(answers(first, requests))
        with keeping(process.uri) as second:
            process.process.kill()
            process.process.wait()
            with capture_logs() as logs:
                found = answers(second, requests)
    assert texts(found) == wanted
    assert {"store"} == {entry["reason"] for entry in logs if entry["event"] == "kv chunks are computed instead"}


@pytest.mark.parametrize("codec", ["raw", pytest.param("cachegen-2", marks=pytest.mark.slow)])
def test_damaged(tmp_path: Path, make_requests: MakeRequests, codec: str) -> None:
    """Chunks that were damaged are computed instead: by chance, or on purpose, with a checksum that is right."""
    requests = hinted(make_requests(8))
    with keeping("") as plain:
        wanted = answers(plain, requests)
    with serving_chunks(tmp_path, max_bytes=64 * MIB) as store:
        with keeping(store.uri, codec) as first:
            answers(first, requests)
        with FlightStore(store.uri) as client:
            keys = [key for (key,) in _rows(tmp_path, "SELECT DISTINCT key FROM chunks")]
            for key in keys:
                client.put(key, codec, _damaged(b"".join(client.get(key, codec)), codec))
        with keeping(store.uri, codec) as second:
            found = answers(second, requests)
        assert texts(found) == texts(wanted)
        assert cached(found) == cached(wanted)
        with FlightStore(store.uri) as client:
            assert client.status().hits > len(keys)  # a load was tried


def test_errors_do_not_add_up(store: KvServer, make_requests: MakeRequests) -> None:
    """What was computed from a lossy load is not saved, in a codec that loses nothing least of all."""
    [request] = make_requests(1)
    with keeping(store.uri, "cachegen-4", save="all") as first:
        answers(first, [request])
    before = held(store)
    with keeping(store.uri, "cachegen-4", codecs=["raw"], save="all") as second:
        longer = replace(request, prompt=request.prompt + "It was long and quiet. " * 40)
        assert cached(answers(second, [longer])) >= 64
    assert held(store) == before
    with FlightStore(store.uri) as client:
        assert set(client.status().codecs) == {"cachegen-4", "fast"}


LOSSY = "cachegen-4"


@pytest.mark.parametrize(
    ("prompt", "tenant"),
    [("{start} Then it rained, and nobody came.", ""), ("Which words rhyme? " * 30, ""), ("{whole}", "acme")],
    ids=["other end", "other prompt", "other tenant"],
)
def test_lossy_numbers_are_not_saved_as_exact(
    tmp_path: Path, make_requests: MakeRequests, prompt: str, tenant: str
) -> None:
    """What an engine keeps of a lossy load shows in no other prompt's exact chunks, whatever keys those have."""
    [request] = make_requests(1)
    request = replace(request, prompt=request.prompt * 3)
    text = prompt.format(start=request.prompt[:700], whole=request.prompt)
    other = replace(request, prompt=text, tenant=tenant)
    with serving_chunks(tmp_path / "ours", max_bytes=64 * MIB) as store:
        with keeping(store.uri, LOSSY, save="all") as first:
            answers(first, [request])
        with keeping(store.uri, LOSSY, codecs=["raw"], save="all") as second:
            assert cached(answers(second, [request])) >= 256
            answers(second, [other])
        found = raw_chunks(store, tmp_path / "ours")
    with serving_chunks(tmp_path / "control", max_bytes=64 * MIB) as store:
        with keeping(store.uri, LOSSY, codecs=["raw"], save="all") as plain:
            answers(plain, [other])
        wanted = raw_chunks(store, tmp_path / "control")
    assert wanted
    assert found.keys() <= wanted.keys()
    assert all(torch.allclose(found[key], wanted[key], atol=1e-3) for key in found)


def raw_chunks(store: KvServer, folder: Path) -> dict[str, torch.Tensor]:
    """Return the exact chunks that a store holds."""
    keys = [key for (key,) in _rows(folder, "SELECT DISTINCT key FROM chunks WHERE codec = 'raw'")]
    with FlightStore(store.uri) as client:
        return {key: decode(RawCodec(), b"".join(client.get(key, "raw"))) for key in keys}


def test_other_profile(store: KvServer, tmp_path: Path, make_requests: MakeRequests) -> None:
    """Engines with another profile keep chunks of their own beside those that they cannot read."""
    requests = hinted(make_requests(8))
    known = Profile.load(profile_path(demo_model()))
    replace(known, mean=known.mean + 0.01).save(tmp_path / "other.npz")
    with keeping(store.uri, DEFAULT_CODEC) as first:
        answers(first, requests)
    before = held(store)
    with keeping(store.uri, DEFAULT_CODEC, profile=str(tmp_path / "other.npz")) as second:
        computed = answers(second, requests)
    assert held(store) == 2 * before
    with keeping(store.uri, DEFAULT_CODEC, profile=str(tmp_path / "other.npz")) as third:
        assert cached(answers(third, requests)) >= cached(computed) + 64


def test_other_model(store: KvServer, make_requests: MakeRequests) -> None:
    """Engines of another revision do not find the chunks."""
    requests = hinted(make_requests(8))
    with keeping(store.uri) as first:
        computed = answers(first, requests)
    with keeping(store.uri, revision="another") as second:
        assert cached(answers(second, requests)) == cached(computed)


def test_rope_by_length(store: KvServer, tmp_path: Path) -> None:
    """A model whose keys of a prompt's start depend on the prompt's length is refused, but not without a store."""
    folder = tmp_path / "model"
    shutil.copytree(demo_model(), folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {**config["rope_parameters"], "rope_type": "dynamic", "factor": 2.0}
    (folder / "config.json").write_text(json.dumps(config))
    options = {"kv_store": store.uri, "kv_codec": "raw"}
    with pytest.raises(UnsupportedError, match="dynamic RoPE"):
        create_engine(EngineConfig("local", str(folder), 2, options))
    create_engine(EngineConfig("local", str(folder), 2, {})).close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kv_codec": "raw"}, "no address"),
        ({"kv_store": "http://here:1"}, "grpc://host:port"),
        ({"kv_store": "grpc://here"}, "grpc://host:port"),
        ({"kv_store": "grpc://here:1", "kv_codec": "zip"}, "raw, int8, cachegen-0"),
        ({"kv_store": "grpc://here:1", "kv_options": {"chunks": 3}}, r"chunks: unknown option.*chunk_tokens"),
        ({"kv_store": "grpc://here:1", "kv_options": {"profile": "/no/where.npz"}}, r"kvcache\.profile"),
    ],
)
def test_wrong_options(options: dict[str, object], told: str) -> None:
    """Wrong options of the store are told by name."""
    with pytest.raises(ConfigError, match=told):
        create_engine(EngineConfig("local", "demo", 2, options))


def _damaged(data: bytes, codec: str) -> bytes:
    """Return a chunk with a byte of another value; of a lossy codec one that fits the checksum."""
    if codec == "raw":
        return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    header, payload = unseal(data, codec, Profile.load(profile_path(demo_model())).digest)
    return seal(header, bytes(payload[:-1]) + bytes([payload[-1] ^ 1]))


def _rows(folder: Path, sql: str) -> list[tuple[str]]:
    [path] = folder.rglob("*.sqlite")
    with sqlite3.connect(path) as connection:
        return list(connection.execute(sql))


class InTurns:
    """Computes every other chunk, and loads those between them."""

    def choose(self, now: Situation) -> str:
        """Return text for the first chunk, and then the other choice each time."""
        return "raw" if now.start // 64 % 2 else TEXT_CHUNK

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Go on."""
        del now, codec, rest
        return True


def test_text_for_one_chunk_and_kv_for_the_next(store: KvServer) -> None:
    """The engine computes a chunk and loads the next one, in turns; the next token is as if it computed all."""
    model, encoder = PrefixModel(demo_model(), "cpu", "float32"), PromptEncoder(demo_model(), chat=False)
    prompt = [*encoder.encode(["a review of a film that I liked, and of another one that I did not like. " * 20])[0]]
    chunks = (len(prompt) - 1) // 64
    assert chunks >= 4
    options = KvOptions(store.uri, codec="raw", save="all", chunk_tokens=64)
    request = Request(0, "", Parameters(), "ai_gen", "", ())
    saving = KeptStarts(options, "test", demo_model(), model, encoder)
    wanted, _ = saving.prefill([request], [prompt], 0)
    saving.close()
    model.turn_to("another")
    model.turn_to("")
    loading = KeptStarts(options, "test", demo_model(), model, encoder)
    loading.keeper.source = replace(loading.keeper.source, policy=InTurns())
    found, reused = loading.prefill([request], [prompt], 0)
    loading.close()
    assert reused == chunks // 2 * 64
    assert torch.allclose(found.logits, wanted.logits, atol=1e-3)
    assert model.exact == len(prompt)
