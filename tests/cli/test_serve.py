"""`flightllm serve`: what it says once it is ready, and the web page beside it."""

import os
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.recovery.messages import Listening
from flightllm.server.announce import next_steps


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Iterator[str]]:
    """Run `flightllm serve` on free ports in a folder with tickets, and yield the lines that it says to people."""
    (folder / "tickets.csv").write_text("id,body\n1,Money back!\n")
    (folder / "c.toml").write_text(
        '[server]\nlisten = "127.0.0.1:0"\n[http]\nlisten = "127.0.0.1:0"\n[engine]\nkind = "fake"\n'
    )
    command = [sys.executable, "-m", "flightllm", "serve", "--config", "c.toml", *arguments]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "FLIGHTLLM_HOME": str(folder / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield iter(process.stderr or ())
        finally:
            process.terminate()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--no-supervisor", "--web", "tickets.csv"),
        pytest.param(("tickets.csv", "--web"), marks=pytest.mark.slow),
        pytest.param(("--no-supervisor", "tickets.csv", "--web", "127.0.0.1:0"), marks=pytest.mark.slow),
    ],
)
def test_web(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """`--web`, with or without an address, before a file or after, serves the page and says where, and how to ask."""
    pytest.importorskip("starlette", reason="the extra 'web' is not installed")
    with serving(tmp_path, *arguments) as lines:
        command = next(line for line in lines if line.startswith("  flightllm query")).strip()
        page = next(line for line in lines if line.startswith("web page: ")).split()[-1]
        with urllib.request.urlopen(page) as answer:  # noqa: S310 - this machine's
            assert b"<title>" in answer.read()
        asked = CliRunner().invoke(main, shlex.split(command)[1:])
        assert "Money back!" in asked.output


def test_postgres(tmp_path: Path) -> None:
    """`--postgres-listen` serves PostgreSQL's clients."""
    psycopg = pytest.importorskip("psycopg", reason="the extra 'test' is not installed")
    with serving(tmp_path, "--no-supervisor", "--postgres-listen", "127.0.0.1:0", "tickets.csv") as lines:
        uri = next(line for line in lines if "postgresql://" in line).partition("postgresql://")[2].split()[0]
        with psycopg.connect(f"postgresql://me@{uri}", autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM tickets").fetchone()[0]


def test_postgres_without_a_port() -> None:
    """A host alone is told what is missing."""
    result = CliRunner().invoke(main, ["serve", "--engine", "fake", "--postgres-listen", "127.0.0.1"])
    assert (result.exit_code, result.output) == (1, "error: [postgres] listen: expected HOST:PORT, got '127.0.0.1'\n")


def test_web_without_a_port() -> None:
    """A host alone, or a port, is told what is missing."""
    for given in ("127.0.0.1:", "8080"):
        result = CliRunner().invoke(main, ["serve", "--engine", "fake", "--web", given])
        assert (result.exit_code, result.output) == (1, f"error: [http] listen: expected HOST:PORT, got '{given}'\n")


def test_next_steps() -> None:
    """What is said fits the address, and who can connect; without tables and page there is nothing to say."""
    usual = Listening("grpc://127.0.0.1:31337")
    assert next_steps(usual) == []
    assert (
        next_steps(replace(usual, table='"My Tickets"'))[1]
        == "  flightllm query 'SELECT * FROM \"My Tickets\" LIMIT 3'"
    )
    asked = next_steps(Listening("grpc+tls://[::1]:5", "https://[::1]:6", is_open=False, table="t"))
    assert asked[1].startswith("  flightllm query --uri grpc+tls://[::1]:5 --user NAME 'SELECT")
    assert (
        asked[2] == "web page: https://[::1]:6/: sign in by user and password, or by a token in place of the password"
    )
