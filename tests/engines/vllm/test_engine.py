"""The production engine on CPU: a process that dies is told, wrong arguments are refused."""

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.engines.vllm.engine import VllmOptions, _engine_args
from flightllm.errors import ConfigError, EngineUnavailableError
from flightllm.llm.engine import Choice, Completion, Engine, Parameters, Request
from tests.packages import NEEDS_VLLM

pytestmark = [NEEDS_VLLM, pytest.mark.vllm]

MakeRequests = Callable[..., list[Request]]
CLOSED = "closed"


@pytest.mark.slow
def test_death_of_the_engine(model_path: Path, make_requests: MakeRequests) -> None:
    """When vLLM's process is killed, what was answered stands and the error names the engine; so does every later call.

    The engine has arguments of its own: no prefix cache, and a batch size that only `engine_args` names.
    """
    before = set(multiprocessing.active_children())
    options = {
        "kv_cache_memory_bytes": 16 << 20,
        "max_model_len": 2048,
        "enable_prefix_caching": False,
        "engine_args": {"max_num_batched_tokens": 2048},
    }
    engine = create_engine(EngineConfig("vllm", str(model_path), 2, options))
    [process] = set(multiprocessing.active_children()) - before
    stream = engine.generate(iter(make_requests(500, Parameters(max_tokens=1))), lambda: False)
    first = next(stream)
    assert first.error is None
    assert first.cached_tokens == 0
    process.kill()
    with pytest.raises(EngineUnavailableError, match=r"vllm \(.*died"):
        drain(stream)
    with pytest.raises(EngineUnavailableError):
        drain(engine.generate(iter(make_requests(1)), lambda: False))
    engine.close()
    with pytest.raises(EngineUnavailableError, match=CLOSED):
        drain(engine.generate(iter(make_requests(1)), lambda: False))


def test_wrong_engine_argument(model_path: Path) -> None:
    """An argument that vLLM does not know is a configuration error, before anything starts."""
    with pytest.raises(ConfigError, match=r"engine_args.*no_such_thing"):
        create_engine(EngineConfig("vllm", str(model_path), 2, {"engine_args": {"no_such_thing": 1}}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensor_parallel_size": 0}, "tensor_parallel_size: expected at least 1, got 0"),
        ({"max_num_batched_tokens": -1}, "max_num_batched_tokens: expected at least 0, got -1"),
        ({"lora": "/a", "kv_store": "grpc://h:1"}, "lora: a KV store does not support adapters"),
        ({"lora": "/nowhere"}, "lora: '/nowhere' is not a folder with an adapter_config.json"),
        ({"quantization": 8}, "quantization: expected str, got int 8"),
    ],
)
def test_wrong_options(model_path: Path, options: dict[str, object], message: str) -> None:
    """A value that vLLM cannot take is refused by its key, before anything starts."""
    with pytest.raises(ConfigError, match=rf"^\[engine\] {message}"):
        check_engine(EngineConfig("vllm", str(model_path), 2, options))


def test_options_reach_vllm(model_path: Path) -> None:
    """Each key is an argument of vLLM; what `engine_args` says of it goes first."""
    given = VllmOptions(quantization="fp8", tensor_parallel_size=2, max_num_batched_tokens=4096)
    arguments = _engine_args(str(model_path), 2, given, None, {})
    assert (arguments.quantization, arguments.tensor_parallel_size, arguments.enable_lora) == ("fp8", 2, False)
    assert arguments.max_num_batched_tokens == 4096
    others = replace(given, engine_args={"max_num_batched_tokens": 8192})
    assert _engine_args(str(model_path), 2, others, None, {}).max_num_batched_tokens == 8192


def drain(stream: Iterator[object]) -> None:
    """Read a stream to its end."""
    for _ in stream:
        pass


def test_tenants_share_no_prefixes(vllm_engine: Engine, make_requests: MakeRequests) -> None:
    """A prompt that one tenant sent is computed anew for another, and for the first one read from the cache."""

    def cached(tenant: str) -> int:
        [request] = make_requests(1, start=900)
        [completion] = vllm_engine.generate(iter([replace(request, tenant=tenant)]), lambda: False)
        return completion.cached_tokens

    assert cached("acme") == 0
    assert cached("acme") > 0
    assert cached("other") == 0


def ask(engine: Engine, request: Request, parameters: Parameters) -> Completion:
    """Return the answer to a prompt under other parameters."""
    [completion] = engine.generate(iter([replace(request, parameters=parameters)]), lambda: False)
    return completion


@pytest.mark.slow
@pytest.mark.parametrize("options", [("Yes", "No"), ("1", "10", "100")])
def test_probabilities_of_options(vllm_engine: Engine, make_requests: MakeRequests, options: tuple[str, ...]) -> None:
    """The options' probabilities sum to 1, each seen where it was drawn; they are told only where asked for."""
    [request] = make_requests(1)
    asked = Parameters(max_tokens=8, temperature=2.0, constraint=Choice(options), probability=True)
    seen: dict[str | None, set[float | None]] = {}
    for seed in range(200):
        completion = ask(vllm_engine, request, replace(asked, seed=seed))
        seen.setdefault(completion.text, set()).add(completion.confidence)
        if len(seen) == len(options):
            break
    assert set(seen) == set(options)
    assert sum(max(one or 0.0 for one in found) for found in seen.values()) == pytest.approx(1.0, abs=1e-3)
    assert ask(vllm_engine, request, replace(asked, probability=False)).confidence is None


@pytest.mark.slow
def test_seeds(vllm_engine: Engine, make_requests: MakeRequests) -> None:
    """The same seed draws the same text twice, another seed another one; `top_p` 0 draws the best tokens."""
    [request] = make_requests(1)
    drawing = Parameters(max_tokens=12, temperature=1.5, seed=1)
    assert ask(vllm_engine, request, drawing).text == ask(vllm_engine, request, drawing).text
    assert ask(vllm_engine, request, drawing).text != ask(vllm_engine, request, replace(drawing, seed=2)).text
    best = ask(vllm_engine, request, replace(drawing, temperature=0.0)).text
    assert ask(vllm_engine, request, replace(drawing, top_p=0.0)).text == best
