"""A server without its list of tables: it does not start, and it changes nothing, whatever else is wrong."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers import SupervisedServer

FAKE = '[engine]\nkind = "fake"\n'
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "back-up.md"


def blocks() -> list[str]:
    """Return the shell blocks of the page, in order."""
    return [part.partition("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```sh\n")[1:]]


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder that a start must not change."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def refused(folder: Path, *arguments: str) -> str:
    """Start a server that cannot start; return its error."""
    with SupervisedServer(folder, FAKE, *arguments) as server:
        assert server.process.wait(60) == 1
        [line] = [line for line in server.log.read_text().splitlines() if line.startswith("error: ")]
    return line


def made(folder: Path, statements: Sequence[str]) -> None:
    """Run statements on a server, and stop it."""
    with SupervisedServer(folder, FAKE) as server:
        for sql in statements:
            server.query(sql)
        assert server.stop() == 0


@pytest.fixture
def taken() -> "socket.socket":
    """Return a socket that listens."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


@pytest.mark.slow
def test_a_start_that_fails_changes_nothing(tmp_path: Path, taken: socket.socket) -> None:
    """Neither a missing list nor a port in use costs a file. What is strange is moved once the server listens."""
    tables = tmp_path / "data" / "tables"
    made(tmp_path, ["CREATE TABLE a AS SELECT 1 AS n", "CREATE TABLE b AS SELECT 2 AS n"])
    listen = f"127.0.0.1:{taken.getsockname()[1]}"
    (tables / "files" / "notes.txt").write_text("mine")
    before = content(tables)
    with taken:
        assert "--listen" in refused(tmp_path, "--listen", listen)
        here = content(tables)
        assert before.items() <= here.items()  # and links to read through
        (tables / "manifest.json").rename(tmp_path / "away")
        before = content(tables)
        assert "manifest.json is missing" in refused(tmp_path, "--listen", listen)
        assert content(tables) == before
    (tmp_path / "away").rename(tables / "manifest.json")
    with SupervisedServer(tmp_path, FAKE) as server:
        assert server.query("SELECT a.n AS a, b.n AS b FROM a, b") == [(1, 2)]
        assert "were moved aside" in server.log.read_text()
        assert (tables / "set-aside" / "1" / "files" / "notes.txt").read_text() == "mine"
        assert len(list((tables / "files").iterdir())) == 2


@pytest.mark.slow
def test_the_page_step_by_step(tmp_path: Path) -> None:
    """Each block of the page does what the page says, and no data file is lost on the way."""
    back_up, restore, before, give_back = blocks()
    data = tmp_path / "data"

    def shell(block: str) -> None:
        text = block.replace("/backups/", f"{tmp_path}/backups/").replace("flightllm ", f"{flightllm} ")
        environment = {**os.environ, "FLIGHTLLM_HOME": str(data)}
        subprocess.run(["/bin/bash", "-euc", text], check=True, env=environment, timeout=120)

    flightllm = f"{sys.executable} -m flightllm"
    with SupervisedServer(tmp_path, FAKE) as server:
        server.query("CREATE TABLE a AS SELECT 1 AS n")
        shell(back_up)
        server.query("CREATE TABLE b AS SELECT 2 AS n")
        server.query("CREATE TABLE c AS SELECT 3 AS n")
        server.stop()
    rows = {body for name, body in content(data / "tables").items() if name.startswith("files/")}
    whole = (data / "tables" / "manifest.json").read_bytes()
    (data / "tables" / "manifest.json").write_bytes(whole[:100] + b"?" + whole[101:])
    assert "manifest.json is damaged" in refused(tmp_path)
    shell(before)
    with SupervisedServer(tmp_path, FAKE) as server:
        assert server.query("SELECT a.n AS a, b.n AS b FROM a, b") == [(1, 2)]
        server.stop()
    assert rows <= set(content(data / "tables").values())
    (data / "tables" / "manifest.json").write_bytes(whole)
    shell(give_back)
    with SupervisedServer(tmp_path, FAKE) as server:
        assert server.query("SELECT a.n AS a, b.n AS b, c.n AS c FROM a, b, c") == [(1, 2, 3)]
        server.stop()
    (data / "tables" / "manifest.json").unlink()
    refused(tmp_path)
    shell(restore)
    with SupervisedServer(tmp_path, FAKE) as server:
        assert server.query("SELECT n FROM a") == [(1,)]
        server.stop()
    assert rows <= set(content(tmp_path).values())
