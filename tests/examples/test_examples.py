"""The examples: each script runs, and each configuration is valid."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.generate import options_of
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.engines.options import read_options
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "own_function": r"(ticket \d+: [1-5]\.0  .+\n){5}",
    "pandas_report": r"mood +.*\nteam .*\nit .*\nmoney .*\nparcels .*\nrepair .*\n",
    "polars_labels": r"shape: \(5, 4\)[\s\S]*│ billing  ┆ 3 +┆ \d",
    "stream_with_budget": r"needs 12 calls\n.*the estimate for the query is 12 calls where .* is 6.*\n(\d+ .+\n){12}",
    "substrait_plan": r"5 .+\n8 .+\n12 .+\n",
}
"""What the scripts print that ask a server."""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of the examples' server, whose engine needs no model."""
    config = Config.load(EXAMPLES / "server.toml")
    data = tmp_path_factory.mktemp("data")
    database = Database.open(replace(config, engine=EngineConfig("fake"), data_folder=data))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    yield server.uri
    server.drain(0)
    database.close()


@pytest.mark.parametrize("name", PRINTED)
def test_scripts_that_ask_a_server(
    name: str, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each script asks the server of `server.toml`, and prints rows with answers."""
    if "polars" in name:
        pytest.importorskip("polars")
    monkeypatch.setattr(sys, "argv", [name, uri])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = "\n".join(line for line in capsys.readouterr().out.splitlines() if "[info" not in line)
    assert re.search(PRINTED[name], printed + "\n"), printed


@pytest.mark.slow
def test_analysis_of_a_csv_file() -> None:
    """The notebook starts its own server, asks, and stops it."""
    command = [sys.executable, str(EXAMPLES / "analyse_csv.py"), "fake"]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    assert "predicted    12     24" in ended.stdout
    assert re.search(r"\d+% of the tickets are negative; calls so far: 24 12$", ended.stdout.strip())


def test_configurations() -> None:
    """Each configuration loads, and its engine knows the options where the engine's package is installed."""
    paths = sorted(EXAMPLES.glob("*.toml"))
    assert [path.name for path in paths] == ["server.toml", "vllm_kv_cache.toml"]
    for path in paths:
        engine = Config.load(path).engine
        if find_spec("torch"):
            read_options(options_of(f"engine {engine.kind}"), engine.kind, engine.options)


def test_readme_lists_all() -> None:
    """README names each script and configuration, and each script is run by a test."""
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".toml"}}
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert listed == files
    assert {name for name in files if name.endswith(".py")} == {f"{name}.py" for name in (*PRINTED, "analyse_csv")}
