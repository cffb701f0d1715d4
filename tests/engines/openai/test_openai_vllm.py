"""The HTTP engine on vLLM's server with all that it says there: exact tokens, events, priorities, salts."""

import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.predict import tokenizing
from flightllm.llm.engine import Choice, Parameters, cache_salt
from flightllm.router.fleet import Fleet
from flightllm.router.mirror import KvMirror
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import pack
from tests.conftest import MakeRequests
from tests.engines.conftest import ANSWERING, need_vllm, serving

pytest.importorskip("openai", reason="the extra 'openai' is not installed")
pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@pytest.fixture(scope="module")
def beginning_model(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo model with a tokenizer that puts a special token before any text, as Llama's does."""
    folder = tmp_path_factory.mktemp("models") / "beginning"
    shutil.copytree(model_path, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    begin = {"SpecialToken": {"id": "<|begin|>", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [1], "tokens": ["<|begin|>"]}},
    }
    path.write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="module")
def server(beginning_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, object]]]:
    """Run vLLM's server; return its base URL and the options that fit it."""
    need_vllm()
    folder = tmp_path_factory.mktemp("s")
    events = {"kv_events": f"ipc://{folder}/events", "kv_replay": f"ipc://{folder}/past"}
    config = {"endpoint": events["kv_events"], "replay_endpoint": events["kv_replay"], "enable_kv_cache_events": True}
    further = ("--kv-events-config", json.dumps(config), "--scheduling-policy", "priority")
    with serving(beginning_model, folder / "log", *ANSWERING, *further) as url:
        options = {"base_url": url, "tokenizer": str(beginning_model), "block_tokens": 32, "cache_salt": True}
        yield url, {**options, "priority": True, **events}


def tokens_there(url: str, **asked: Any) -> list[int]:
    """Return the tokens that the server makes of what it is asked."""
    body = json.dumps({"model": "demo", **asked}).encode()
    headers = {"Content-Type": "application/json"}
    address = url.removesuffix("/v1") + "/tokenize"
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as reply:  # noqa: S310 - loopback
        return [int(token) for token in json.load(reply)["tokens"]]


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_tokens(server: tuple[str, dict[str, object]], api: str, make_requests: MakeRequests) -> None:
    """A prompt's tokens are the server's own, special ones included, in either interface."""
    url, options = server
    [request] = make_requests(1)
    engine = create_engine(EngineConfig("openai", "demo", 2, {**options, "api": api}))
    exact = tokenizing(engine)
    assert exact is not None
    [ids] = exact.token_ids([request.prompt])
    asked = {"messages": [{"role": "user", "content": request.prompt}]} if api == "chat" else {"prompt": request.prompt}
    assert ids == tokens_there(url, **asked)
    assert ids.count(1) == 1
    [completion] = engine.generate(iter([request]), lambda: False)
    assert completion.prompt_tokens == len(ids)
    engine.close()


def test_events_and_tenants(server: tuple[str, dict[str, object]], make_requests: MakeRequests) -> None:
    """What the endpoint tells of its cache is what it then finds there, for the tenant who sent it."""
    pytest.importorskip("zmq", reason="the extra 'cluster' is not installed")
    from flightllm.router.kv_events import KvSubscription
    from tests.servers import await_true

    engine: Any = create_engine(EngineConfig("openai", "demo", 2, {**server[1], "api": "completions"}))
    parameters = Parameters(max_tokens=2, constraint=Choice(("Yes", "No")))
    [first, second] = (
        replace(one, priority=number, tenant="acme") for number, one in enumerate(make_requests(2, parameters, 700))
    )
    fleet = Fleet(engine.prefix_cache.block_tokens)
    fleet.add(None, exact=True)
    subscription = KvSubscription(engine.kv_events, KvMirror(fleet.tree, fleet.caches[0]), threading.Lock())
    [completion] = engine.generate(iter([first]), lambda: False)
    assert (completion.error, completion.cached_tokens) == (None, 0)

    def expected(tenant: str) -> int:
        [ids] = engine.token_ids([second.prompt])
        prompt = RoutedPrompt(0, pack(ids), 2, cache_salt(tenant).encode())
        with subscription._lock:
            return fleet.cached_tokens(prompt, fleet.insert(prompt), 0)

    await_true(lambda: expected("acme") > 0)
    assert expected("other") == 0
    predicted = expected("acme")
    [completion] = engine.generate(iter([second]), lambda: False)
    assert (completion.error, completion.cached_tokens) == (None, predicted)
    subscription.close()
    engine.close()
