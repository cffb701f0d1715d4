"""The model calls of a statement, as a person sees them in a terminal."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import ServerProcess

if os.name == "posix":
    from tests.terminals import Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
SQL = "SELECT n, ai_filter('Odd? {n}', n) AS odd FROM t ORDER BY n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Start a server whose engine answers about ten prompts, and no more until the test says so."""
    with ServerProcess(tmp_path, rows=40, window=2, latency_ms=1, halt_after=10, price_output=1e6) as started:
        yield started


def command(uri: str, *arguments: str) -> list[str]:
    """Return the command line of `flightllm query`."""
    return [sys.executable, "-m", "flightllm", "query", "--uri", uri, *arguments]


@pytest.mark.parametrize("form", [(), pytest.param(("--format", "csv"), marks=pytest.mark.slow)], ids=["table", "csv"])
def test_the_bar_goes_before_the_result(server: ServerProcess, form: tuple[str, ...]) -> None:
    """While calls run, a line says how many are done; then the line is gone, and no result is glued to it."""
    terminal = Terminal(command(server.uri, "--yes", *form, SQL))
    terminal.read_until(lambda: "tokens" in terminal.text)
    last = terminal.screen()[-1]
    assert last.startswith("model calls ")
    assert "/40  " in last
    assert "  $" in last
    server.go_on()
    assert terminal.finish() == 0
    shown = terminal.screen()
    assert not [line for line in shown if "model calls" in line]
    assert shown[0].split() == (["n", "┃", "odd"] if not form else ['"n","odd"'])


@pytest.mark.slow
def test_a_change_shows_the_bar(server: ServerProcess) -> None:
    """A change has no id, and its calls are shown all the same."""
    terminal = Terminal(command(server.uri, "--yes", f"CREATE TABLE kept AS {SQL}"))
    terminal.read_until(lambda: "tokens" in terminal.text)
    assert "/40  " in terminal.screen()[-1]
    server.go_on()
    assert terminal.finish() == 0
    assert terminal.screen()[0] == "40 rows affected"


def test_no_bar_without_calls(server: ServerProcess) -> None:
    """A query without model calls shows its result, and nothing before it."""
    terminal = Terminal(command(server.uri, "SELECT 1 AS one"))
    assert terminal.finish() == 0
    assert terminal.screen()[0] == "one"
    assert "model calls" not in terminal.text
