"""`flightllm serve` and `doctor` on endpoints that cannot answer: each says which line of the file to change."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from tests.endpoints import Body, Reply, answer, endpoint_of

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

QUOTA = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
KEY = {"error": {"message": "Incorrect API key provided."}}
MODEL = {"error": {"message": "The model `wrong` does not exist.", "code": "model_not_found"}}
CASES = (
    ("quota", 'api_key = "env:OPENAI_API_KEY"', "has no quota left (HTTP 429): You exceeded your current quota."),
    ("key", 'api_key = "env:OPENAI_API_KEY"', "rejects the API key (HTTP 401): Incorrect API key provided."),
    ("wrong", 'model = "…"', "has no model 'wrong' (HTTP 404): The model `wrong` does not exist."),
    ("host", 'base_url = "http://HOST:PORT/v1"', "cannot be reached: no server listens at this address"),
)


def behave(path: str, body: Body, _: int) -> Reply:
    """Fail as the model's name says."""
    bodies: dict[str, tuple[int, Any]] = {"quota": (429, QUOTA), "key": (401, KEY), "wrong": (404, MODEL)}
    return (*bodies[body["model"]], {}) if body["model"] in bodies else answer(path, body)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve `behave`."""
    with endpoint_of(behave) as endpoint:
        yield endpoint.url


def config(folder: Path, url: str, model: str) -> str:
    """Write a configuration; the model `host` is where nothing listens."""
    place = "http://127.0.0.1:1/v1" if model == "host" else url
    (folder / f"{model}.toml").write_text(
        f'data_folder = "{folder}/{model}"\n[server]\nlisten = "127.0.0.1:0"\n'
        f'[engine]\nkind = "openai"\nmodel = "{model}"\nbase_url = "{place}"\n'
    )
    return str(folder / f"{model}.toml")


def start(path: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a server."""
    command = [sys.executable, "-m", "flightllm", "serve", "--config", path, *arguments]
    environment = {**os.environ, "OPENAI_API_KEY": "sk-secret-0123456789"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_serve_refuses_to_start(url: str, tmp_path: Path) -> None:
    """A wrong key, host or model and an empty account end the start with the line to change, under a supervisor too."""
    servers = [(start(config(tmp_path, url, model)), line, said) for model, line, said in CASES]
    for server, line, said in servers:
        out, error = server.communicate()
        assert server.returncode == 1
        assert "listening" not in out
        assert said in error
        assert f"the line to change is [engine] {line}" in error
        assert "sk-secret" not in error
        assert "Traceback" not in error


@pytest.mark.slow
def test_no_check_starts_all_the_same(url: str, tmp_path: Path) -> None:
    """With `--no-check` the endpoint is not asked."""
    server = start(config(tmp_path, url, "host"), "--no-check", "--no-supervisor")
    try:
        assert server.stdout is not None
        assert any(line.startswith("listening ") for line in server.stdout)
    finally:
        server.terminate()
        server.communicate()


@pytest.mark.parametrize("case", CASES)
def test_doctor_says_so(case: tuple[str, str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor finds the same before the start."""
    model, line, said = case
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    result = CliRunner().invoke(main, ["doctor", "--config", config(tmp_path, url, model)])
    assert result.exit_code == 1
    assert said in result.output
    assert f"the line to change is [engine] {line}" in result.output
