"""Deferred statements whose process is killed: no prompt is bought twice, and a change happens once."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batch_endpoint import BatchProvider, batch_provider

_SCRIPT = """
import json, os, signal, sys, threading, time
from contextlib import contextmanager
from pathlib import Path
from flightllm.config import Config, EngineConfig
from flightllm.deferred.store import BatchStore
from flightllm.session.database import Database
from flightllm.session.deferring import PassRunner

folder, url, sql, kill_at = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
events = [0]

def happened():
    events[0] += 1
    if events[0] == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

whole, run = BatchStore._transaction, PassRunner.run

@contextmanager
def transaction(store):
    with whole(store) as database:
        yield database
    if len(events) > 1 and threading.current_thread().name.startswith("batch "):
        happened()

def run_then(*given):
    rows = run(*given)  # a pass that took effect: nothing has noted it yet
    happened()
    return rows

BatchStore._transaction, PassRunner.run = transaction, run_then
options = {"base_url": url, "provider": "openai", "api_key_env": ""}
config = Config(engine=EngineConfig("openai", "gpt-test", options=options), data_folder=Path(folder))
database = Database.open(config)
session = database.session()
if sql:
    session.update("CREATE TABLE t AS SELECT value AS id, 'row ' || value AS x FROM generate_series(1, 6)")
    session.update("CREATE TABLE made (id BIGINT, a TEXT)")
    events.append(0)  # count from here on
    session.update(sql, settings={"delivery": "batch"})
while any(row["ended"] is None for row in database.deferred.rows()):
    time.sleep(0.01)
events[1:] = []
rows = [row for batch in session.execute("SELECT id, a FROM made ORDER BY id").batches for row in batch.to_pylist()]
states = [(row["state"], row["error"]) for row in database.deferred.rows()]
database.close()
print(json.dumps({"rows": rows, "states": states, "events": events[0]}), flush=True)
"""
_SQL = "INSERT INTO made SELECT id, ai_gen('Say', x) FROM t WHERE ai_filter('Good?', x)"


def _run(
    folder: Path, provider: BatchProvider, *, defers: bool, kill_at: int = 0
) -> tuple[int, dict[str, list[object]]]:
    """Run a process to its end; return its exit code and what it printed."""
    given = [str(folder), provider.url, _SQL if defers else "", str(kill_at)]
    done = subprocess.run([sys.executable, "-c", _SCRIPT, *given], capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith('{"rows"')]
    if done.returncode not in {0, -signal.SIGKILL}:
        raise AssertionError(done.stderr[-2_000:])
    return done.returncode, json.loads(found[0]) if found else {}


def _check(folder: Path, provider: BatchProvider, expected: list[object]) -> None:
    """Go on after a crash, and check the rows and what was bought."""
    code, told = _run(folder, provider, defers=False)
    assert code == 0
    if not told["states"]:
        assert not provider.asked  # the statement was not kept yet, and nothing was bought
        return
    assert told["states"] == [["done", None]]
    assert told["rows"] == expected
    assert set(provider.asked.values()) == {1}
    assert not provider.chats


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], int]:
    """Return the rows of a run without a crash, and how many events it has."""
    with batch_provider() as provider:
        code, told = _run(tmp_path_factory.mktemp("whole"), provider, defers=True)
        assert (code, told["states"]) == (0, [["done", None]])
        assert set(provider.asked.values()) == {1}
        return told["rows"], int(str(told["events"]))


_POINTS = 20
_FAST = (0,)


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in _FAST else pytest.mark.slow) for point in range(_POINTS)]
)
def test_a_kill_at_any_point(point: int, undisturbed: tuple[list[object], int], tmp_path: Path) -> None:
    """A process is killed after one of its transactions: the next one goes on, and buys nothing again."""
    rows, events = undisturbed
    with batch_provider() as provider:
        kill_at = events if point == 0 else 1 + (events - 2) * (point - 1) // (_POINTS - 2)
        _run(tmp_path, provider, defers=True, kill_at=kill_at)
        _check(tmp_path, provider, rows)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/batches/batch_1", "/v1/files/file-2/content"])
def test_a_kill_before_a_reply(path: str, undisturbed: tuple[list[object], int], tmp_path: Path) -> None:
    """A process is killed after a request took effect and before its reply: the next one finds the job."""
    rows, _ = undisturbed
    with batch_provider() as provider:
        given = [str(tmp_path), provider.url, _SQL, "0"]
        command = [sys.executable, "-c", _SCRIPT, *given]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        provider.before_reply = lambda asked: process.kill() if asked == path else None
        process.wait()
        assert process.returncode == -signal.SIGKILL
        provider.before_reply = lambda _: None
        _check(tmp_path, provider, rows)
        assert len(provider.jobs) == 2
