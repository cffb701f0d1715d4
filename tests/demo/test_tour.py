"""The demo, run as a user runs it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flightllm.demo.tour import STOPS, cost_line
from tests.servers import await_true


def _demo(engine: str) -> str:
    command = [sys.executable, "-m", "flightllm", "demo", "--engine", engine]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # several would wait for each other on a busy machine
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=one_thread)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tour_shows_every_query_and_its_cost() -> None:
    """Each stop prints its SQL and what it cost, then how to connect."""
    output = _demo("fake")
    for number, stop in enumerate(STOPS, 1):
        assert f"{number}. {stop.title.split(':')[0]}" in output
    assert output.count("model calls for") == len(STOPS)
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
