"""Two Node clients: one on grpc-js, the other on arrow-rs."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from flightllm.flight.server import FlightSqlServer

PACKAGES = ("@lancedb/arrow-flight-sql-client@0.3.0", "@lakehouse-rs/flight-sql-client@0.0.10", "apache-arrow@14")
NODE = shutil.which("node") or ""
SCRIPT = Path(__file__).parent / "node" / "clients.mjs"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install both clients, without running scripts of theirs; skip where Node or its registry is missing.

    Where `CI` is `true` and Node is there, clients that cannot be installed are a failure: nobody reads of a skip.
    """
    npm = shutil.which("npm")
    if not NODE or npm is None:
        pytest.skip("Node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
    try:
        installed = subprocess.run(
            [npm, "install", *options, *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        _missing("the Node registry does not answer")
    if installed.returncode:
        _missing(f"the Node clients cannot be installed: {installed.stderr[-300:]}")
    shutil.copy(SCRIPT, folder)
    return folder


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def seen(folder: Path, server: FlightSqlServer) -> Any:
    """Run both clients against a server and return what they saw."""
    done = subprocess.run(
        [NODE, SCRIPT.name, str(server.port)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def test_both_clients(seen: Any) -> None:
    """Rows, results beyond a message's 4 MiB, model calls and errors arrive in both; metadata in the one that asks."""
    for client in ("grpc", "rust"):
        assert seen[client]["rows"] == [{"n": n, "s": f"text {n}", "even": n % 2 == 0} for n in (1, 2, 3)]
        assert (seen[client]["large"], seen[client]["model"]) == (20_000, 2)
        assert seen[client]["error"] is not None
    assert "No field named nope" in seen["grpc"]["error"]["message"]
    assert seen["grpc"]["error"]["sqlstate"] == "42703"
    assert seen["rust"]["catalogs"] == ["flightllm"]
    assert seen["rust"]["schemas"] == ["public", "system"]
    assert "queries" in seen["rust"]["tables"]
