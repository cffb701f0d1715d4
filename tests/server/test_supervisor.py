"""The server's process dies in all ways, and another takes its place."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.client import Client
from flightllm.config import Config, RecoveryConfig
from flightllm.errors import EngineUnavailableError, FlightLLMError
from flightllm.recovery.journal import Journal, Phase, create_journal
from flightllm.recovery.process import Worker
from flightllm.recovery.quarantine import ALL, digest_of
from flightllm.server.supervisor import _Supervisor, supervise
from tests.servers import SupervisedServer, await_true

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SLOW = '[engine]\nkind = "fake"\nmax_in_flight = 1\nlatency_ms = 20.0'
COUNT = "SELECT count(*) FROM generate_series(1, 1000)"
LARGE = "SELECT value, repeat('x', 200) AS s FROM generate_series(1, {rows})"


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    """After each `kill -9` the same address answers again, AI queries too, and `listening` is printed once.

    No process that serves loads pandas, which nothing there needs.
    """
    with SupervisedServer(tmp_path) as server:
        workers = set()
        for _ in range(2):
            await_true(lambda: len(server.children()) == 2)
            workers.add(server.children()[0])
            assert "/pandas/" not in Path(f"/proc/{server.children()[0]}/maps").read_text()
            server.kill_worker()
            assert server.query_again(COUNT) == [(1000,)]
        assert server.query("SELECT ai_filter('Is it?', 'x') IS NOT NULL") == [(True,)]
        assert len(workers) == 2
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""


@pytest.mark.slow
def test_a_process_that_hangs_is_replaced(tmp_path: Path) -> None:
    """One that does nothing any more, here because it is stopped, is killed; its successor answers."""
    with SupervisedServer(tmp_path, "[recovery]\nhung_seconds = 2") as server:
        await_true(lambda: len(server.children()) == 2)
        worker = server.children()[0]
        assert server.query_again(COUNT) == [(1000,)]
        with suppress(ProcessLookupError):  # a machine that is busy for 2 s stops it too
            os.kill(worker, signal.SIGSTOP)
        await_true(lambda: worker not in server.children())
        assert server.query_again(COUNT) == [(1000,)]
        assert "server process hangs" in server.log.read_text()
        assert server.stop() == 0


@pytest.mark.slow
def test_a_spare_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """A spare process killed while it waits is replaced while the other one serves."""
    with SupervisedServer(tmp_path) as server:
        await_true(lambda: len(server.children()) == 2)
        worker, spare = server.children()
        os.kill(spare, signal.SIGKILL)
        await_true(lambda: spare not in server.children() and len(server.children()) == 2)
        assert server.children()[0] == worker
        assert "spare process died" in server.log.read_text()
        assert server.stop() == 0


@pytest.mark.slow
def test_a_signal_without_a_name(tmp_path: Path) -> None:
    """A process killed by a real-time signal, which Python has no name for, is replaced like any other."""
    with SupervisedServer(tmp_path) as server:
        worker = server.children()[0]
        os.kill(worker, signal.SIGRTMIN + 6)
        await_true(lambda: worker not in server.children())
        assert server.query_again(COUNT) == [(1000,)]
        assert f"signal {signal.SIGRTMIN + 6}" in server.log.read_text()


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        (-signal.SIGSEGV, True),
        (-signal.SIGABRT, True),
        (-signal.SIGKILL, True),
        (-signal.SIGTERM, False),
        (128 + signal.SIGTERM, False),
    ],
)
def test_whose_deaths_count(tmp_path: Path, code: int, *, refused: bool) -> None:
    """After three deaths a user is refused, also where the supervisor aborted one that hung; not if it was ended."""
    supervisor, descriptor = _Supervisor(Config(data_folder=tmp_path)), create_journal()
    journal = Journal(descriptor)
    for number in range(3):
        assert ("bob", ALL) not in supervisor._refused
        sql = f"SELECT {number}"
        journal.note(digest_of(sql), sql, Phase.STARTING, "", "bob")
        supervisor._blame(journal, code)
    os.close(descriptor)
    assert (("bob", ALL) in supervisor._refused, len(supervisor._refused)) == (refused, 4 if refused else 0)


def test_a_signal_between_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to end holds for the process that is there when it is over, not for the one that died before."""
    monkeypatch.setattr("flightllm.server.supervisor._GRACE_SECONDS", 0.0)
    supervisor = _Supervisor(Config(data_folder=tmp_path, recovery=RecoveryConfig(drain_seconds=2)))

    async def sleeper() -> Worker:
        process = await asyncio.create_subprocess_exec("sleep", "60", process_group=0)
        return Worker(process, Pipe()[0])

    async def signalled() -> int:
        supervisor._worker = await sleeper()
        supervisor._worker.kill()
        await supervisor._worker.ended()
        supervisor._on_signal(signal.SIGTERM)
        later = supervisor._worker = await sleeper()
        return await asyncio.wait_for(later.ended(), 60)

    assert asyncio.run(signalled()) == -signal.SIGKILL


@pytest.mark.slow
def test_killed_under_load(tmp_path: Path) -> None:
    """Clients that try again where the server is unavailable all get the right rows in the end."""
    sql = "SELECT sum(value % 7) AS s, count(*) AS n FROM generate_series(1, 3000000)"
    with SupervisedServer(tmp_path, '[engine]\nkind = "fake"\n[recovery]\nquarantine_seconds = 0') as server:
        [expected] = server.query(sql)
        answers: list[tuple[object, ...]] = []
        unavailable = threading.Event()

        def ask() -> None:
            with Client(server.uri) as client:
                while len(answers) < 40:
                    try:
                        rows = [row for batch in client.query(sql)[1] for row in batch.to_pylist()]
                    except EngineUnavailableError:
                        unavailable.set()
                        continue
                    answers.extend(tuple(row.values()) for row in rows)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for count in (5, 15):
            await_true(lambda count=count: len(answers) >= count)  # type: ignore[misc]
            server.kill_worker()
        for thread in threads:
            thread.join(60)
        assert unavailable.is_set()
        assert len(answers) >= 40
        assert set(answers) == {expected}


@pytest.mark.slow
def test_a_client_of_a_killed_process(tmp_path: Path) -> None:
    """Whose query was running is told what happened, and what to do."""
    with SupervisedServer(tmp_path, SLOW) as server, Client(server.uri) as client:
        batches = slow_query(client, 5000)
        next(batches)
        server.kill_worker()
        with pytest.raises(EngineUnavailableError, match=r"process ended.*flightllm quarantine"):
            list(batches)


@pytest.mark.slow
def test_a_killed_supervisor_takes_all_with_it(tmp_path: Path) -> None:
    """After `kill -9` of the supervisor no process is left over, and the port is free."""
    with SupervisedServer(tmp_path) as server:
        await_true(lambda: len(server.children()) == 2)
        children = server.children()
        server.process.kill()
        server.process.wait()
        await_true(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
        with socket.create_server(("127.0.0.1", int(server.uri.rpartition(":")[2]))):
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_drains(tmp_path: Path, number: int) -> None:
    """The rows of a query that runs when the signal comes all arrive; then the command ends well."""
    with SupervisedServer(tmp_path, SLOW) as server, Client(server.uri) as client:
        batches = slow_query(client, 50)
        rows = next(batches).num_rows
        server.process.send_signal(number)
        assert rows + sum(batch.num_rows for batch in batches) == 50
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_draining_has_a_limit(tmp_path: Path) -> None:
    """What still runs after `drain_seconds` is cancelled."""
    with SupervisedServer(tmp_path, SLOW + "\n[recovery]\ndrain_seconds = 1") as server, Client(server.uri) as client:
        batches = slow_query(client, 5000)
        next(batches)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(FlightLLMError):
            list(batches)
        assert server.process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--no-supervisor",), ()])
def test_a_stopped_client_does_not_hold_up_the_end(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A client that is stopped in mid-result, and is still there, costs the drain no more than its time."""
    settings = '[engine]\nkind = "fake"\n[recovery]\ndrain_seconds = 1'
    script = """
import sys
from flightllm.client import Client
with Client(sys.argv[1]) as client:
    next(client.query("SELECT value, repeat('x', 200) AS s FROM generate_series(1, 10000000)")[1])
    print("rows", flush=True)
    sys.stdin.read()
"""
    with (
        SupervisedServer(tmp_path, settings, *arguments) as server,
        subprocess.Popen(
            [sys.executable, "-c", script, server.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as client,
    ):
        assert client.stdout is not None
        assert client.stdout.readline() == "rows\n"
        client.send_signal(signal.SIGSTOP)
        assert server.stop() == 0
        assert "its call is cancelled" in server.log.read_text()
        client.kill()


@pytest.mark.slow
def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """Who does not want to wait signals again."""
    with SupervisedServer(tmp_path, SLOW + "\n[recovery]\ndrain_seconds = 600") as server, Client(server.uri) as client:
        batches = slow_query(client, 5000)
        next(batches)
        server.process.send_signal(signal.SIGTERM)
        await_true(lambda: "draining" in server.log.read_text())
        assert server.stop() == 128 + signal.SIGTERM


@pytest.mark.slow
def test_drain_command(tmp_path: Path) -> None:
    """`flightllm drain` lets a running query finish, and ends the server well."""
    with SupervisedServer(tmp_path) as server, Client(server.uri) as client:
        batches = client.query(LARGE.format(rows=300_000))[1]  # it runs until its rows are read
        rows = next(batches).num_rows
        said = CliRunner().invoke(main, ["drain", "--uri", server.uri])
        assert said.output == "draining: 1 query still runs\n"
        assert rows + sum(batch.num_rows for batch in batches) == 300_000
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_a_process_that_cannot_start(tmp_path: Path) -> None:
    """After some processes that crash at the start the server gives up, and says by what they died."""
    functions = tmp_path / "functions"
    functions.mkdir()
    (functions / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    settings = f'[engine]\nkind = "fake"\n[functions]\nfolders = ["{functions}"]'
    with SupervisedServer(tmp_path, settings) as server:
        assert server.process.wait(60) == 1
        assert server.log.read_text().splitlines()[-1].startswith("error: the server died 5 times while it started")
        assert server.log.read_text().splitlines()[-1].endswith("(SIGSEGV); see its log")


def test_no_process_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system starts no process at all, the command says so."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(FlightLLMError, match="cannot start the server's process"):
        supervise(Config(data_folder=tmp_path))


@pytest.mark.slow
def test_a_wrong_setting_is_one_line(tmp_path: Path) -> None:
    """What the server's process finds wrong is said as the command's own error."""
    settings = f'[engine]\nkind = "fake"\n[tables]\nt = "{tmp_path / "absent.parquet"}"'
    with SupervisedServer(tmp_path, settings) as server:
        assert server.process.wait(60) == 1
        [line] = server.log.read_text().splitlines()
        assert line.startswith("error: ")
        assert "absent.parquet" in line


@pytest.mark.parametrize("arguments", [("--no-supervisor",), pytest.param((), marks=pytest.mark.slow)])
def test_without_supervisor(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The option, or the configuration, leaves the server in the command's own process."""
    switched = "" if arguments else "\n[recovery]\nsupervisor = false"
    with SupervisedServer(tmp_path, f'[engine]\nkind = "fake"{switched}', *arguments) as server:
        assert server.query(COUNT) == [(1000,)]
        assert server.children() == []
        assert server.stop() == 0


@pytest.mark.slow
def test_modules_in_the_working_folder_do_not_matter(tmp_path: Path) -> None:
    """The server's process takes the same modules as the command, whatever lies in the folder it is started in."""
    (tmp_path / "structlog.py").write_text("raise SystemExit('the wrong module')")
    command = [sys.executable, "-P", "-m", "flightllm", "serve", "--engine", "fake", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "FLIGHTLLM_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening ")
        process.terminate()
        assert process.wait(60) == 0


def slow_query(client: Client, rows: int) -> Iterator[pa.RecordBatch]:
    """Start a query that takes 20 ms a row, under `SLOW`."""
    client.query(f"CREATE TABLE numbers AS SELECT * FROM generate_series(1, {rows}) AS g(n)")
    return client.query("SELECT ai_gen('What of {n}?', n) AS a FROM numbers")[1]


@pytest.mark.slow
def test_a_frozen_server_does_not_hang(tmp_path: Path) -> None:
    """One whose processes all stood still for long, as in `docker pause`, goes on with the process that it had."""
    with SupervisedServer(tmp_path, "[recovery]\nhung_seconds = 30") as server:
        await_true(lambda: len(server.children()) == 2)
        children = server.children()
        for process in (server.process.pid, *children):
            os.kill(process, signal.SIGSTOP)
        time.sleep(40)  # noqa: TID251 -- the processes stand still for longer than `hung_seconds`
        for process in (server.process.pid, *children):
            os.kill(process, signal.SIGCONT)
        assert server.query(COUNT) == [(1000,)]
        assert server.children() == children
        assert "server process hangs" not in server.log.read_text()
