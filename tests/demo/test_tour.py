"""The demo, run as a user runs it."""

import os
import subprocess
import sys

import pytest

from flightllm.demo.tour import STOPS, cost_line


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
    for client in ("jdbc:arrow-flight-sql://", "adbc_driver_flightsql", "pandas.read_sql"):
        assert client in output


def test_embedded_engine_serves_shared_prefixes_from_its_cache() -> None:
    """With the default engine the tour runs to its end, says that answers are noise, and reuses prefixes."""
    pytest.importorskip("torch")
    output = _demo("local")
    assert "random weights" in output
    cached = [line for line in output.splitlines() if "of them cached" in line]
    assert any("0 of them cached" not in line for line in cached)


def test_cost_line_leaves_out_what_did_not_happen() -> None:
    """Failed rows and known answers are mentioned only where there are some."""
    cost = {"calls": 3, "distinct_prompts": 3, "cache_hits": 0, "prompt_tokens": 200, "cached_tokens": 150,
            "completion_tokens": 3, "failed_rows": 0, "seconds": 0.5}  # fmt: skip
    assert "150 of them cached (75%)" in cost_line(cost)
    assert "without a usable answer" not in cost_line(cost)
    assert "2 rows without a usable answer" in cost_line({**cost, "failed_rows": 2})
