"""A real server process on the fake engine, whose prompts are logged, and which can be killed and started again."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import adbc_driver_flightsql.dbapi as flight_sql

from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session import Database

SCRIPT = """
import json, sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.flight.serve import serve
engine = EngineConfig(kind="fake", max_in_flight=int(sys.argv[2]), options=json.loads(sys.argv[3]))
limits = LimitsConfig(**json.loads(sys.argv[4]))
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=engine, limits=limits, data_folder=Path(sys.argv[1])))
"""


class ServerProcess:
    """A server whose data folder is `folder`, with the table `t` of `rows` numbers; `options` are the engine's."""

    def __init__(
        self, folder: Path, rows: int, window: int, limits: Mapping[str, object] | None = None, **options: object
    ) -> None:
        self.log = folder / "prompts.jsonl"
        chosen = json.dumps({"log_path": str(self.log), **options})
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

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the process."""
        self.kill()


@contextmanager
def serving(
    folder: Path, limits: LimitsConfig | None = None, *, window: int = 8, **options: object
) -> Iterator[FlightSqlServer]:
    """Serve a thousand numbers `t(n)` on the fake engine in this process; `options` are the engine's."""
    engine = EngineConfig(kind="fake", max_in_flight=window, options=options)
    config = Config(engine=engine, limits=limits or LimitsConfig(), data_folder=folder)
    with closing(Database.open(config)) as database:
        with closing(database.session()) as session:
            session.update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000)")
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), config.limits)
        try:
            yield server
        finally:
            server.drain(0)


def ask(cursor: flight_sql.Cursor, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows."""
    cursor.execute(sql)
    return list(cursor.fetchall())


@contextmanager
def cursor_of(server: FlightSqlServer) -> Iterator[flight_sql.Cursor]:
    """Open a connection of its own, and a cursor on it."""
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor
