"""The demo, run as a user runs it."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from rich.console import Console

from flightllm.cli.demo_tour import (
    COMPARED,
    STOPS,
    RunFigures,
    agreement_line,
    compare,
    comparison,
    cost_line,
    own_model,
)
from flightllm.demo.process import running_server
from flightllm.engines.providers import PROVIDERS
from tests.servers import await_true


def _demo(engine: str) -> str:
    command = [sys.executable, "-m", "flightllm", "demo", "--engine", engine]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # several would wait for each other on a busy machine
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=one_thread)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_tour_shows_every_query_and_its_cost() -> None:
    """Each stop prints its SQL and what it cost, then how to connect."""
    output = _demo("fake")
    for number, stop in enumerate(STOPS, 1):
        assert f"{number}. {stop.title.split(':')[0]}" in output
    assert output.count("model calls, as") == output.count("answers are right") == len(STOPS)
    assert re.search(r"^ +times less +│ +\d", output, re.MULTILINE)
    assert "  SELECT m.title" in output
    assert not [line for line in output.splitlines() if line != line.rstrip()]
    for client in ("jdbc:arrow-flight-sql://", "adbc_driver_flightsql", "pandas.read_sql"):
        assert client in output


@pytest.mark.slow
def test_embedded_engine_serves_shared_prefixes_from_its_cache() -> None:
    """With the default engine the tour runs to its end, says who answers, and reuses prefixes."""
    pytest.importorskip("torch")
    output = _demo("local")
    assert "demonstration model" in output
    cached = [line for line in output.splitlines() if "of them cached" in line]
    assert any(re.search(r"\b[1-9][\d,]* of them cached", line) for line in cached)
    right = re.findall(r"([\d,]+) of ([\d,]+) answers are right", output)
    assert len(right) == len(STOPS)
    assert all(int(good) >= 0.95 * int(rows) for good, rows in right)


def test_the_optimizer_off_and_on() -> None:
    """With the optimizer the compared query makes fewer calls of fewer tokens, about as many as EXPLAIN says before."""
    with (
        running_server(["--engine", "fake"]) as server,
        flight_sql.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        off, forecast, on = compare(cursor)
        cursor.execute(COMPARED)
        rows = cursor.fetch_arrow_table().num_rows
    assert off.calls == 500 + rows
    assert on.calls < off.calls / 3
    assert on.prompt_tokens < off.prompt_tokens / 3
    assert forecast.calls == pytest.approx(on.calls, rel=0.5)


def test_comparison_says_how_many_times_less() -> None:
    """The last line divides the first run's figures by the last one's; nothing is divided by zero."""
    console = Console(width=100, file=io.StringIO())
    console.print(comparison([RunFigures("off", 100, 900, 300, 8.0), RunFigures("on", 20, 90, 30, 0.0)]))
    assert isinstance(console.file, io.StringIO)
    last = console.file.getvalue().splitlines()[-1]
    assert [cell.strip() for cell in last.split("│")] == ["times less", "5.0", "10.0", "10.0", ""]


def test_agreement() -> None:
    """A share is told where there are rows."""
    assert agreement_line(20, 19, "the label") == "  19 of 20 answers are right (95%), checked against the label"
    assert agreement_line(0, 0, "the label") == "  0 of 0 answers are right, checked against the label"


def test_a_key_is_named_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said at the end fits the key that is set, and never holds the key."""
    for provider in PROVIDERS:
        monkeypatch.delenv(provider.key_env or "UNUSED", raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    assert own_model().startswith("A real model can answer about your own file.")
    monkeypatch.setenv("MISTRAL_API_KEY", "secret")
    assert own_model().startswith("MISTRAL_API_KEY is set;")
    assert "The demo did not use it." in own_model()
    assert "flightllm init\n" in own_model()
    assert "secret" not in own_model()


def test_cost_line_leaves_out_what_did_not_happen() -> None:
    """Failed rows and known answers are mentioned only where there are some."""
    cost = {"calls": 3, "distinct_prompts": 3, "cache_hits": 0, "prompt_tokens": 200, "cached_tokens": 150,
            "completion_tokens": 3, "failed_rows": 0, "seconds": 0.5}  # fmt: skip
    assert "150 of them cached (75%)" in cost_line(cost)
    assert "without a usable answer" not in cost_line(cost)
    assert "2 rows without a usable answer" in cost_line({**cost, "failed_rows": 2})


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "after"),
    [
        (signal.SIGTERM, "Starting a server"),
        (signal.SIGHUP, "Ready at"),
        (signal.SIGINT, "1. Filter"),
        (signal.SIGTERM, "The server keeps running"),
        (signal.SIGINT, "The server keeps running"),
    ],
)
def test_a_signal_ends_the_server_too(tmp_path: Path, number: signal.Signals, after: str) -> None:
    """Whenever the demo is told to end, by a signal to it alone, neither its server nor its folder stays."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, and stays so in the demo")
    command = [sys.executable, "-m", "flightllm", "demo", "--engine", "fake", "--keep"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    ) as demo:
        assert demo.stdout is not None
        assert any(after in line for line in demo.stdout)
        demo.send_signal(number)
        said = demo.communicate(timeout=60)[0]
    assert "Traceback" not in said
    assert list(tmp_path.glob("flightllm-*")) == []
    await_true(lambda: not _processes(tmp_path))  # one only just started ends by itself: its settings are gone


def _processes(folder: Path) -> list[Path]:
    """Return the processes whose command line names the folder."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder) in _command_line(path)]


def _command_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""
