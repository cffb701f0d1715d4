"""A statement that kills the server is refused by the next process, who goes on with others too; nobody else is."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from flightllm.access.store import AccessStore, User
from flightllm.cli import main
from flightllm.client import Client
from flightllm.errors import EngineUnavailableError, InvalidInputError, QuarantinedError
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
    return [(name.strip(), sql.strip()) for name, _, _, _, sql in cells]


@pytest.mark.slow
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
        assert run(server, "quarantine", "--lift", name) == f"{name} can run again\n"
        assert refused(server) == []
        server.kill_worker()
        assert server.query_again("SELECT 1 AS a") == [(1,)]
        assert refused(server) == []
        worker = server.children()[0]
        with pytest.raises(EngineUnavailableError):
            server.query(KILLER)
        await_true(lambda: worker not in server.children())


@pytest.mark.slow
def test_no_quarantine(folder: Path) -> None:
    """With 0 seconds nothing is refused: the same text kills again."""
    with SupervisedServer(folder, SETTINGS.format(0)) as server:
        for _ in range(2):
            with pytest.raises(EngineUnavailableError) as raised:
                server.query(KILLER)
            assert not isinstance(raised.value, QuarantinedError)
            assert server.query_again("SELECT 1 AS a") == [(1,)]


@pytest.fixture
def client_of(folder: Path) -> Callable[[SupervisedServer, str], Client]:
    """Add an admin and two users; return how to connect as one of them."""
    store, tokens = AccessStore(folder / "data" / "access.sqlite"), {}
    for user in (User("root", "admin"), User("mal", "readonly"), User("bob", "readonly")):
        store.add_user(user)
        tokens[user.name] = store.add_token(user.name)
    store.close()
    return lambda server, name: Client(server.uri, {"authorization": f"Bearer {tokens[name]}"})


@pytest.mark.slow
def test_who_kills_with_ever_new_texts(folder: Path, client_of: Callable[[SupervisedServer, str], Client]) -> None:
    """A statement is refused for its user alone; who alone had one at three deaths is refused, others are let go."""
    settings = SETTINGS.format(300).replace('"fake"', '"fake"\nmax_in_flight = 1\nlatency_ms = 20.0')
    slow = "SELECT count(ai_gen('What of {value}?', value)) AS n FROM generate_series(1, 5000)"
    with SupervisedServer(folder, settings) as server:

        def again(name: str, sql: str) -> list[dict[str, object]]:
            with client_of(server, name) as client:

                def answered() -> bool:
                    with suppress(EngineUnavailableError):
                        found.extend(row for batch in client.query(sql)[1] for row in batch.to_pylist())
                        return True
                    return False

                found: list[dict[str, object]] = []
                await_true(answered)
                return found

        def innocent() -> None:
            with client_of(server, "bob") as client, suppress(EngineUnavailableError):
                list(client.query(slow)[1])

        def die(text: str, others: int) -> None:
            running = f"SELECT count(*) AS n FROM system.queries WHERE status = 'running' AND sql = '{slow_text}'"
            threads = [threading.Thread(target=innocent) for _ in range(others)]
            for thread in threads:
                thread.start()
            await_true(lambda: again("root", running) == [{"n": others}])
            with client_of(server, "mal") as client, pytest.raises(EngineUnavailableError):
                client.query(text)
            for thread in threads:
                thread.join()
            assert again("root", "SELECT 1 AS a") == [{"a": 1}]

        slow_text = slow.replace("'", "''")
        die("SELECT ai_crash('1')", 1)
        with client_of(server, "bob") as client:
            with pytest.raises(InvalidInputError, match="this statement was running when the server died"):
                client.query(slow)
            with client_of(server, "root") as admin:
                admin.query(slow)
            with client_of(server, "mal") as other:
                other.query(slow)
        die("SELECT ai_crash('2')", 0)
        assert again("mal", "SELECT 2 AS a") == [{"a": 2}]
        die("SELECT ai_crash('3')", 0)
        with client_of(server, "mal") as client, client_of(server, "root") as admin:
            for text in ("SELECT 2", "SELECT 3"):
                with pytest.raises(
                    EngineUnavailableError, match=r"your statements were running.*for another \d+ s.*--lift mal`"
                ):
                    client.query(text)
            listed = [(one["user"], one["name"] == "mal", one["sql"]) for one in admin.quarantine()]
            killers = [("mal", False, f"SELECT ai_crash('{number}')") for number in (1, 2, 3)]
            assert listed == [*killers, ("mal", True, "all statements of this user")]
            assert again("bob", "SELECT 2 AS a") == [{"a": 2}]
            admin.lift("mal")
            assert again("mal", "SELECT 2 AS a") == [{"a": 2}]
            with pytest.raises(InvalidInputError):
                client.query("SELECT ai_crash('1')")
        with client_of(server, "bob") as client:
            client.query(slow)


@pytest.mark.slow
def test_admins_are_never_refused_altogether(
    folder: Path, client_of: Callable[[SupervisedServer, str], Client]
) -> None:
    """An admin whose statements killed the server three times may still say others."""
    with SupervisedServer(folder, SETTINGS.format(300)) as server, client_of(server, "root") as client:
        for number in (1, 2, 3):
            with pytest.raises(EngineUnavailableError):
                client.query(f"SELECT ai_crash('{number}')")

            def alive() -> bool:
                with suppress(EngineUnavailableError):
                    return [batch.num_rows for batch in client.query("SELECT 1")[1]] == [1]
                return False

            await_true(alive)
        assert len(client.quarantine()) == 3
