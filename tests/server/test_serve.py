"""A server process: ready line, and an orderly end on SIGTERM."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flightllm.client import Client
from flightllm.errors import FlightLLMError

SCRIPT = """
import sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, LogConfig, ServerConfig
from flightllm.log import configure_logging
from flightllm.server.serve import serve
configure_logging(LogConfig(level="error"))  # on standard error: a log line could tear the line `listening` apart
engine = EngineConfig(kind="fake", max_in_flight=1, options={"latency_ms": 20.0})
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=engine, data_folder=Path(sys.argv[1])))
"""


@contextmanager
def _process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _ready(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    assert line.startswith("listening grpc://127.0.0.1:")
    return line.removeprefix("listening ").strip()


def test_sigterm_lets_a_running_query_finish(tmp_path: Path) -> None:
    """The rows of a query that runs when the signal comes all arrive; then the process ends well."""
    with _process(tmp_path) as process, Client(_ready(process)) as client:
        client.query("CREATE TABLE numbers AS SELECT * FROM generate_series(1, 50) AS g(n)")
        batches = client.query("SELECT ai_gen('What of {n}?', n) AS a FROM numbers")[1]
        rows = next(batches).num_rows
        process.send_signal(signal.SIGTERM)
        rows += sum(batch.num_rows for batch in batches)
        assert rows == 50
        assert process.wait(30) == 0


def _signal_until_it_ends(process: subprocess.Popen[str]) -> None:
    """Signal until the process ends: a busy process can take two signals for one."""
    for _ in range(60):
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
            return


@pytest.mark.slow
def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """Who does not want to wait signals again."""
    with _process(tmp_path) as process, Client(_ready(process)) as client:
        client.query("CREATE TABLE numbers AS SELECT * FROM generate_series(1, 5000) AS g(n)")
        batches = client.query("SELECT ai_gen('What of {n}?', n) AS a FROM numbers")[1]
        next(batches)
        waiting = threading.Thread(target=_signal_until_it_ends, args=(process,))
        waiting.start()
        with pytest.raises(FlightLLMError):
            list(batches)
        waiting.join()
        assert process.returncode != 0


@pytest.mark.slow
def test_what_it_writes_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Answers and data files too, whoever may look into the folder."""
    with _process(tmp_path) as process, Client(_ready(process)) as client:
        client.query("CREATE TABLE numbers AS SELECT * FROM generate_series(1, 5) AS g(n)")
        list(client.query("SELECT ai_gen('What of {n}?', n) AS a FROM numbers")[1])
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {path.suffix for path in written} >= {".parquet", ".sqlite"}
        assert [path.name for path in written if path.stat().st_mode & 0o077] == []
