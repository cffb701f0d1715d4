"""The session of psql on the page about PostgreSQL's clients prints what the page shows."""

import shutil
import subprocess
from pathlib import Path

import pytest

from flightllm.config import Config, EngineConfig, PostgresConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.server import PostgresServer
from flightllm.session.database import Database
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs/how-to/clients/postgresql.md"
PROMPT = "flightllm=> "


def test_psql(tmp_path: Path) -> None:
    """Each line after a prompt is typed, and the lines up to the next prompt are the answer."""
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("psql is not installed")
    (block,) = blocks(PAGE, "psql")
    typed = [line.removeprefix(PROMPT) for line in block.text.splitlines() if line.startswith(PROMPT)]
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    flight = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    with PostgresServer(PostgresConfig("127.0.0.1:0"), flight.core) as server:
        done = subprocess.run(
            [psql, "-X", f"host=127.0.0.1 port={server.port} user=bob dbname=flightllm"],
            input="".join(f"\\echo '{PROMPT}'{number}\n{line}\n" for number, line in enumerate(typed)),
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        )
    flight.drain(0)
    database.close()
    shown = done.stdout
    for number, line in enumerate(typed):
        shown = shown.replace(f"{PROMPT}{number}\n", f"{PROMPT}{line}\n", 1)
    assert _lines(shown) == _lines(block.text)


def _lines(text: str) -> list[str]:
    """Return the lines with text, without the blanks at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]
