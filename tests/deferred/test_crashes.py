"""Deferred statements whose process is killed: no prompt is bought twice, and a change happens once."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batch_endpoint import BatchProvider, batch_provider
from tests.message_batches import MessageBatches
from tests.messages_api import MessagesApi, serving

Engine = dict[str, Any]
"""The parts of a server's own engine in its configuration."""

_SCRIPT = """
import json, os, signal, sys, threading, time
from contextlib import contextmanager
from pathlib import Path
from flightllm.config import Config, EngineConfig
from flightllm.deferred.store import BatchStore
from flightllm.session.database import Database
from flightllm.session.deferring import PassRunner

folder, engine, sql, kill_at = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
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
config = Config(engine=EngineConfig(**engine), data_folder=Path(folder))
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
    folder: Path, engine: Engine, *, defers: bool, kill_at: int = 0, sql: str = _SQL
) -> tuple[int, dict[str, list[object]]]:
    """Run a process to its end; return its exit code and what it printed."""
    given = [str(folder), json.dumps(engine), sql if defers else "", str(kill_at)]
    done = subprocess.run([sys.executable, "-c", _SCRIPT, *given], capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith('{"rows"')]
    if done.returncode not in {0, -signal.SIGKILL}:
        raise AssertionError(done.stderr[-2_000:])
    return done.returncode, json.loads(found[0]) if found else {}


def _openai(provider: BatchProvider) -> Engine:
    options = {"base_url": provider.url, "provider": "openai", "api_key_env": ""}
    return {"kind": "openai", "model": "gpt-test", "options": options}


def _anthropic(api: MessagesApi) -> Engine:
    options = {"base_url": api.url, "batch": "on", "api_key_env": ""}
    return {"kind": "anthropic", "model": "claude-sonnet-4-5", "options": options}


def _check(folder: Path, engine: Engine, expected: list[object], bought: Callable[[], Counter[str]]) -> None:
    """Go on after a crash, and check the rows and what was bought."""
    code, told = _run(folder, engine, defers=False)
    assert code == 0
    if not told["states"]:
        assert not bought()  # the statement was not kept yet, and nothing was bought
        return
    assert told["states"] == [["done", None]]
    assert told["rows"] == expected
    assert set(bought().values()) == {1}


def _killed_before(folder: Path, engine: Engine, hook: Callable[[Callable[[], None]], None]) -> None:
    """Run a process until a request has taken effect, and kill it before the reply; `hook` gets what kills it."""
    command = [sys.executable, "-c", _SCRIPT, str(folder), json.dumps(engine), _SQL, "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    hook(process.kill)
    process.wait()
    assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], int]:
    """Return the rows of a run without a crash, and how many events it has."""
    with batch_provider() as provider:
        code, told = _run(tmp_path_factory.mktemp("whole"), _openai(provider), defers=True)
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
        _run(tmp_path, _openai(provider), defers=True, kill_at=kill_at)
        _check(tmp_path, _openai(provider), rows, lambda: provider.asked + provider.chats)
        assert not provider.chats


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/batches/batch_1", "/v1/files/file-2/content"])
def test_a_kill_before_a_reply(path: str, undisturbed: tuple[list[object], int], tmp_path: Path) -> None:
    """A process is killed after a request took effect and before its reply: the next one finds the job."""
    rows, _ = undisturbed

    def hook(kill: Callable[[], None]) -> None:
        provider.before_reply = lambda asked: kill() if asked == path else None

    with batch_provider() as provider:
        _killed_before(tmp_path, _openai(provider), hook)
        provider.before_reply = lambda _: None
        _check(tmp_path, _openai(provider), rows, lambda: provider.asked)
        assert not provider.chats
        assert len(provider.jobs) == 2


ANTHROPIC_ROWS: list[object] = [{"id": number, "a": "Yes"} for number in range(1, 7)]
"""The rows of each run at Anthropic's stand-in, whose answers are all the same."""


def _messages_api() -> MessagesApi:
    pytest.importorskip("anthropic", reason="the extra 'anthropic' is not installed")
    return MessagesApi(say=lambda _: "Yes", seconds=0.0, batches=MessageBatches(looks=2))


def _said(api: MessagesApi) -> Counter[str]:
    """Return how often each prompt was answered."""
    return Counter(json.dumps(body, sort_keys=True) for body in api.bodies)


@pytest.fixture(scope="module")
def events_at_anthropic(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return how many events a run without a crash has."""
    with serving(_messages_api()) as api:
        code, told = _run(tmp_path_factory.mktemp("whole"), _anthropic(api), defers=True)
        assert (code, told["states"], told["rows"]) == (0, [["done", None]], ANTHROPIC_ROWS)
        assert set(_said(api).values()) == {1}
        return int(str(told["events"]))


@pytest.mark.slow
@pytest.mark.parametrize("point", range(10))
def test_a_kill_at_any_point_with_messages(point: int, events_at_anthropic: int, tmp_path: Path) -> None:
    """Anthropic's batches have no names: a process that was killed still finds its own, and buys nothing again."""
    with serving(_messages_api()) as api:
        kill_at = 1 + (events_at_anthropic - 1) * point // 9
        _run(tmp_path, _anthropic(api), defers=True, kill_at=kill_at)
        _check(tmp_path, _anthropic(api), ANTHROPIC_ROWS, lambda: _said(api))
        assert len(api.batches.made) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("GET", "/msgbatch_1"), ("GET", "/msgbatch_1/results"), ("POST", "/msgbatch_2")],
)
def test_a_kill_before_a_reply_with_messages(method: str, path: str, tmp_path: Path) -> None:
    """A batch whose reply never came is found by the ids of its requests."""
    last = "msgbatch_2" in path  # the second batch is made by the same request as the first
    asked = method, f"/v1/messages/batches{'' if last else path}"

    def hook(kill: Callable[[], None]) -> None:
        api.before_reply = lambda *seen: kill() if seen == asked and len(api.batches.made) == 1 + last else None

    with serving(_messages_api()) as api:
        _killed_before(tmp_path, _anthropic(api), hook)
        api.before_reply = lambda *_: None
        _check(tmp_path, _anthropic(api), ANTHROPIC_ROWS, lambda: _said(api))
        assert len(api.batches.made) == 2


_GUIDE = " ".join(f"Rule {number}: weigh each word of the text." for number in range(150))
_GUIDED = f"INSERT INTO made SELECT id, ai_gen('{_GUIDE}', x) FROM t"
"""A statement whose first prompt stores the start for the others."""


@pytest.fixture(scope="module")
def events_with_a_start(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return how many events a run without a crash has."""
    with serving(_messages_api()) as api:
        code, told = _run(tmp_path_factory.mktemp("whole"), _anthropic(api), defers=True, sql=_GUIDED)
        assert (code, told["states"]) == (0, [["done", None]])
        assert [len(requests) for requests in api.batches.requests.values()] == [1, 5]
        return int(str(told["events"]))


@pytest.mark.slow
@pytest.mark.parametrize("point", range(5))
def test_a_kill_while_a_start_is_stored(point: int, events_with_a_start: int, tmp_path: Path) -> None:
    """A process that is killed between the prompt that stores a start and those that read it goes on."""
    with serving(_messages_api()) as api:
        kill_at = 1 + (events_with_a_start - 1) * point // 4
        _run(tmp_path, _anthropic(api), defers=True, kill_at=kill_at, sql=_GUIDED)
        _check(tmp_path, _anthropic(api), ANTHROPIC_ROWS, lambda: _said(api))
        assert len(api.batches.made) in {0, 2}
