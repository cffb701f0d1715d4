"""The examples: each script runs, and each configuration is valid."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


def _run_script(script: str, opened: str, folder: Path, *options: str) -> str:
    """Run a script of the shell on files, in a folder without a configuration; return what it prints."""
    command = [sys.executable, "-m", "flightllm", "shell", *options, str(EXAMPLES / opened)]
    text = (EXAMPLES / script).read_text(encoding="utf-8")
    ended = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_german_csv_file_becomes_classified_parquet(tmp_path: Path) -> None:
    """Semicolons, capitals, days and prices are read, and each review has one of the classes in the Parquet file."""
    printed = _run_script("classify_reviews.sql", "bewertungen.csv", tmp_path, "--engine", "fake")
    assert re.search(r"6 │ 2024-11-03 │ 2024-12-31 │ 1690.35", printed)
    table = pq.read_table(tmp_path / "classified.parquet")
    names = ["Nummer", "Gekauft", "Preis", "Bewertung", "kind"]
    assert table.column_names == names
    assert [field.type for field in table.schema][:3] == [pa.int64(), pa.date32(), pa.float64()]
    assert table["Preis"].to_pylist() == [1299.0, 39.9, None, 12.5, 249.0, 89.95]
    assert table["Bewertung"][3].as_py() == "Gute Tasse; der Henkel ist etwas klein."
    assert set(table["kind"].to_pylist()) <= {"praise", "complaint", "question"}


@pytest.mark.parametrize("options", [("--engine", "fake"), pytest.param((), marks=pytest.mark.slow)])
def test_a_folder_of_markdown_becomes_a_table_of_topics(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Each note has a topic, without a key: the demonstration model answers, or answers are made up."""
    if not options:
        pytest.importorskip("torch")
    printed = _run_script("topics.sql", "notes", tmp_path, *options)
    rows = re.findall(r"^(\w+) +│ +(\d+) │ (.+)$", printed, re.MULTILINE)
    assert {topic for topic, _, _ in rows} <= {"cooking", "travel", "money"}
    notes = [name for _, _, names in rows for name in names.strip().split(", ")]
    assert sorted(notes) == sorted(path.name for path in (EXAMPLES / "notes").iterdir())
    assert sum(int(count) for _, count, _ in rows) == len(notes)


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
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sql", ".toml"}}
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert listed == files
    assert {name for name in files if name.endswith(".py")} == {f"{name}.py" for name in (*PRINTED, "analyse_csv")}
