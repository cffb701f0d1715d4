"""A real server process on the fake engine, whose prompts are logged, and which can be killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from flightllm.client import Client
from flightllm.common.limits import Deadline
from flightllm.config import Config, EngineConfig, LimitsConfig, RecoveryConfig, ServerConfig
from flightllm.errors import EngineUnavailableError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from flightllm.common.pandas_import import put_off_pandas
put_off_pandas()
from flightllm.config import Config, EngineConfig, LimitsConfig, LogConfig, RecoveryConfig, ServerConfig
from flightllm.log import configure_logging
from flightllm.server.serve import serve
from flightllm.engines.fake.engine import FakeEngine
options = json.loads(sys.argv[3])
most, go_on, asked = options.pop("halt_after"), Path(sys.argv[1], "go_on"), []
answer_late = FakeEngine._answer_late
async def halting(self, chunk):
    halts = most and len(asked) >= most
    asked.extend(chunk)
    while halts and not go_on.exists():
        await asyncio.sleep(0.01)
    return await answer_late(self, chunk)
FakeEngine._answer_late = halting
configure_logging(LogConfig(level="error"))  # on standard error: a log line could tear the line `listening` apart
price = options.pop("price_output", None)
engine = EngineConfig(kind="fake", max_in_flight=int(sys.argv[2]), price_output=price, options=options)
limits, recovery = LimitsConfig(**json.loads(sys.argv[4])), RecoveryConfig(on_engine_down="fail")
server = ServerConfig("127.0.0.1:0")
serve(Config(server=server, engine=engine, limits=limits, recovery=recovery, data_folder=Path(sys.argv[1])))
"""


class ServerProcess:
    """A server whose data folder is `folder`, with the table `t` of `rows` numbers; `options` are the engine's.

    Queries fail where it dies. With `halt_after` its engine, which needs a latency then, answers about so many prompts,
    and no more until `go_on` is called: a query is in its middle for as long as the test takes.
    """

    def __init__(
        self,
        folder: Path,
        rows: int,
        window: int,
        limits: Mapping[str, object] | None = None,
        *,
        halt_after: int = 0,
        **options: object,
    ) -> None:
        self.log = folder / "prompts.jsonl"
        self.go_on = (folder / "go_on").touch
        chosen = json.dumps({"log_path": str(self.log), "halt_after": halt_after, **options})
        command = [sys.executable, "-c", SCRIPT, str(folder), str(window), chosen, json.dumps(dict(limits or {}))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = iter(self.process.stdout or ())
        line = next((line for line in lines if line.startswith("listening ")), "")  # logs come before
        self.uri = line.removeprefix("listening ").strip()
        self.query(f"CREATE OR REPLACE TABLE t AS SELECT value AS n FROM generate_series(1, {rows})")

    def connect(self) -> flight_sql.Connection:
        """Open a connection, a session of its own."""
        return flight_sql.connect(self.uri, autocommit=True)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of its own, and return its rows."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def prompts(self) -> list[str]:
        """Return the prompts that all servers on this folder sent so far."""
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        return [json.loads(line)["prompt"] for line in lines if line.endswith("\n")]

    def kill(self) -> None:
        """Kill the process as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process."""
        self.kill()


@contextmanager
def serving(
    folder: Path, limits: LimitsConfig | None = None, *, kind: str = "fake", window: int = 8, **options: object
) -> Iterator[FlightSqlServer]:
    """Serve a thousand numbers `t(n)` in this process; `options` are the engine's.

    Queries fail where it dies.
    """
    engine = EngineConfig(kind=kind, max_in_flight=window, options=options)
    recovery = RecoveryConfig(on_engine_down="fail")
    config = Config(engine=engine, limits=limits or LimitsConfig(), recovery=recovery, data_folder=folder)
    with closing(Database.open(config)) as database:
        with closing(database.session()) as session:
            session.update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), config.limits)
        try:
            yield server
        finally:
            server.drain(0)


@contextmanager
def time_over(server: FlightSqlServer, seconds: float, when: Callable[[], bool]) -> Iterator[None]:
    """Limit statements in the block to `seconds`. The limit passes once `when()` is true, not by the clock."""
    database = server._core.database
    assert isinstance(database, Database)
    limits = database.config.limits
    before = limits.statement_seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline, "over", property(lambda deadline: deadline.at is not None and when()))
        object.__setattr__(limits, "statement_seconds", seconds)
        try:
            yield
        finally:
            object.__setattr__(limits, "statement_seconds", before)


def ask(cursor: flight_sql.Cursor, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows."""
    cursor.execute(sql)
    return list(cursor.fetchall())


@contextmanager
def cursor_of(server: FlightSqlServer) -> Iterator[flight_sql.Cursor]:
    """Open a connection of its own, and a cursor on it."""
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


class KilledProcess:
    """A process that is killed where its block ends."""

    process: subprocess.Popen[str]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process, and with a supervisor all that it supervises."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class SupervisedServer(KilledProcess):
    """`flightllm serve` on a free port, its data in `folder`; `settings` are TOML sections."""

    def __init__(self, folder: Path, settings: str = '[engine]\nkind = "fake"', *arguments: str) -> None:
        config = folder / "server.toml"
        config.write_text(f'data_folder = "{folder / "data"}"\n{settings}')
        command = [sys.executable, "-m", "flightllm", "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
            )
        line = self.process.stdout.readline() if self.process.stdout else ""
        self.uri = line.removeprefix("listening ").strip()

    def children(self) -> list[int]:
        """Return the processes of the server, oldest first: the one that serves, then the spare one."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        started = {int(process): _started(int(process)) for process in listed}
        return sorted((process for process in started if started[process]), key=started.__getitem__)

    def kill_worker(self) -> None:
        """Kill the process that serves as `kill -9` does, and wait until it is gone."""
        worker = self.children()[0]
        os.kill(worker, signal.SIGKILL)
        await_true(lambda: worker not in self.children())

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of its own, and return its rows."""
        with Client(self.uri) as client:
            return [tuple(row.values()) for batch in client.query(sql)[1] for row in batch.to_pylist()]

    def query_again(self, sql: str, seconds: float = 120.0) -> list[tuple[Any, ...]]:
        """Run a statement, and again where the server is not there."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.query(sql)
            except EngineUnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.05)  # noqa: TID251 -- between two looks

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code; where the process does not end, tell what its threads are at."""
        self.process.send_signal(number)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            for child in self.children():  # first: they end with their supervisor
                os.kill(child, signal.SIGABRT)
            time.sleep(1)  # noqa: TID251 -- they write down what they are at, and do not say when they have
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(60)
            raise AssertionError(self.log.read_text()) from None


def await_true(condition: Callable[[], bool], seconds: float = 60.0, look: float = 0.02) -> None:
    """Wait until something is so, with a `look` every so many seconds; the limit only shows what hangs: it is long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(look)  # noqa: TID251 -- between two looks


def _started(process: int) -> int:
    """Return when a process was started, in ticks."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (ProcessLookupError, FileNotFoundError):
        return 0
