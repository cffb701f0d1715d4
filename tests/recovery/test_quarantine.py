"""A statement that kills the server is refused by the next process; others are not."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.cli import main
from flightllm.errors import EngineUnavailableError, QuarantinedError
from tests.servers import SupervisedServer, await_true

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

CRASH = """
import signal
from flightllm.functions import AIFunction, Kind, Parameter, text_answer

def crash(call):
    signal.raise_signal(signal.SIGSEGV)

FUNCTION = AIFunction(
    name="ai_crash",
    summary="Crash while a query is planned.",
    returns="text",
    parameters=(Parameter("text", Kind.FIELD),),
    build=crash,
)
"""
SETTINGS = '[engine]\nkind = "fake"\n[functions]\nfolders = ["functions"]\n[recovery]\nquarantine_seconds = {}'
KILLER = "SELECT ai_crash('x')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a function that crashes the process."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "crash.py").write_text(CRASH)
    return tmp_path


def run(server: SupervisedServer, *arguments: str) -> str:
    """Run a command of the command line that ends well, and return what it says."""
    result = CliRunner().invoke(main, [*arguments, "--uri", server.uri])
    assert result.exit_code == 0, result.output
    return result.output


def refused(server: SupervisedServer) -> list[tuple[str, str]]:
    """Return the names and texts of the refused statements, as the command line lists them."""
    cells = [line.split("│") for line in run(server, "quarantine").splitlines()[2:]]
    return [(name.strip(), sql.strip()) for name, _, _, sql in cells]


def test_a_killer_is_refused(folder: Path) -> None:
    """The text is refused, with comments too, also after another death, until an administrator lifts it.

    The process after a further death does not refuse again what was lifted in the one before.
    """
    with SupervisedServer(folder, SETTINGS.format(300)) as server:
        with pytest.raises(EngineUnavailableError):
            server.query(KILLER)
        assert server.query_again("SELECT 1 AS a") == [(1,)]
        for text in (KILLER, f"{KILLER} -- again"):
            with pytest.raises(Exception, match=r"when the server died.*refused for another \d+ s.*quarantine --lift"):
                server.query(text)
        server.kill_worker()
        assert server.query_again("SELECT 2 AS a") == [(2,)]
        [(name, text)] = refused(server)
        assert text == KILLER
        assert run(server, "quarantine", "--lift", name) == f"lifted {name}\n"
        assert refused(server) == []
        server.kill_worker()
        assert server.query_again("SELECT 1 AS a") == [(1,)]
        assert refused(server) == []
        worker = server.children()[0]
        with pytest.raises(EngineUnavailableError):
            server.query(KILLER)
        await_true(lambda: worker not in server.children())


def test_no_quarantine(folder: Path) -> None:
    """With 0 seconds nothing is refused: the same text kills again."""
    with SupervisedServer(folder, SETTINGS.format(0)) as server:
        for _ in range(2):
            with pytest.raises(EngineUnavailableError) as raised:
                server.query(KILLER)
            assert not isinstance(raised.value, QuarantinedError)
            assert server.query_again("SELECT 1 AS a") == [(1,)]
