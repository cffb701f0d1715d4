"""A real server process on the fake engine, whose prompts are logged, and which can be killed and started again."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import adbc_driver_flightsql.dbapi as flight_sql

SCRIPT = """
import json, sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.serve import serve
engine = EngineConfig(kind="fake", max_in_flight=int(sys.argv[2]), options=json.loads(sys.argv[3]))
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=engine, data_folder=Path(sys.argv[1])))
"""


class ServerProcess:
    """A server whose data folder is `folder`, with the table `t` of `rows` numbers; `options` are the engine's."""

    def __init__(self, folder: Path, rows: int, window: int, **options: object) -> None:
        self.log = folder / "prompts.jsonl"
        chosen = json.dumps({"log_path": str(self.log), **options})
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder), str(window), chosen], stdout=subprocess.PIPE, text=True
        )
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
