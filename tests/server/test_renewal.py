"""A process that has grown is replaced by a new one, and its clients notice nothing."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_flightsql import dbapi

from flightllm.access.store import AccessStore, User
from flightllm.client import Client
from flightllm.config import Config, EngineConfig, LimitsConfig, ServerConfig
from flightllm.flight.handover import can_move, continue_from, state_of
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.servers import SupervisedServer, await_true
from tests.web.support import Visitor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are handed over on Linux alone")

EAGER = "renew_growth = 1.0001\nrenew_bytes = 0\nrenew_quiet_seconds = {quiet}\nquarantine_seconds = 0"
"""A process is replaced once a statement made it grow at all, and all was quiet for a moment."""
SETTINGS = '[engine]\nkind = "fake"\n[recovery]\n' + EAGER
ADMIN, PASSWORD = "root", "correct horse battery"
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
LOGIN = {"username": ADMIN, "password": PASSWORD}
TIMEOUT = ("flightllm.timeout", "77.0")
STAYED = "the present one goes on"


def eager(quiet: int = 1, more: str = "") -> str:
    """Return the settings of a server that is renewed early."""
    return SETTINGS.format(quiet=quiet) + more


def renewed(server: SupervisedServer, times: int = 1) -> bool:
    """Return whether the server has been renewed so often."""
    return server.log.read_text().count("server process renewed") >= times


def add_admin(folder: Path) -> None:
    """Make a user with a password before the server starts."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    with closing(AccessStore(data / "access.sqlite")) as store:
        store.add_user(User(ADMIN, "admin"), PASSWORD)


@pytest.mark.parametrize("options", [pytest.param(COOKIES, marks=pytest.mark.slow), LOGIN], ids=["cookies", "login"])
def test_a_connection_goes_on(tmp_path: Path, options: dict[str, str]) -> None:
    """A connection keeps its settings, its search path and its prepared statement; tables have all rows."""
    if options is LOGIN:
        add_admin(tmp_path)
    with SupervisedServer(tmp_path, eager()) as server:
        await_true(lambda: len(server.children()) == 2)
        first = server.children()[0]
        with dbapi.connect(server.uri, db_kwargs=options, autocommit=True) as connection:
            cursor, other = connection.cursor(), connection.cursor()
            cursor.execute("CREATE SCHEMA s")
            cursor.execute("SET search_path TO s")
            cursor.execute("SET flightllm.timeout = 77")
            cursor.execute("CREATE TABLE t AS SELECT 1 AS n")
            for n in (7, 8):  # the statement is prepared once
                other.execute("SELECT n + ? AS m FROM t", (n,))
                assert other.fetchall() == [(n + 1,)]
            await_true(lambda: renewed(server))
            other.execute("SELECT n + ? AS m FROM t", (9,))
            assert other.fetchall() == [(10,)]
            cursor.execute("SHOW flightllm.timeout")
            assert cursor.fetchall() == [TIMEOUT]
            cursor.execute("INSERT INTO t VALUES (2)")
            await_true(lambda: renewed(server, 2))
            cursor.execute("SELECT sum(n) FROM t")
            assert cursor.fetchall() == [(3,)]
            cursor.close()
            other.close()
        assert first not in server.children()
        assert server.stop() == 0


@pytest.mark.slow
def test_new_connections_during_a_renewal(tmp_path: Path) -> None:
    """Connections that open while the successor starts all wait and get their rows, and so do later ones."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        opening = halt_successors(tmp_path, server)
        answers, failures = list[Any](), list[BaseException]()

        def ask() -> None:
            try:
                answers.extend(server.query("SELECT n FROM t") for _ in range(10))
            except BaseException as error:  # noqa: BLE001 - the test fails by it
                failures.append(error)

        asking = [threading.Thread(target=ask) for _ in range(8)]
        for one in asking:
            one.start()
        assert not renewed(server)
        (tmp_path / "go").touch()
        for one in asking:
            one.join()
        assert failures == []
        assert answers == [[(1,)]] * 80
        assert renewed(server)
        assert server.children()[0] == opening
        assert server.stop() == 0


@pytest.mark.slow
def test_the_page_goes_on(tmp_path: Path) -> None:
    """A browser stays signed in, with its settings, at the same address."""
    add_admin(tmp_path)
    with SupervisedServer(tmp_path, eager(more='\n[http]\nlisten = "127.0.0.1:0"\npage = true')) as server:
        await_true(lambda: "serving http" in server.log.read_text())
        page = next(line for line in server.log.read_text().splitlines() if "serving http" in line)
        visitor = Visitor(next(word for word in page.split() if word.startswith("uri=")).partition("=")[2].strip("'"))
        assert visitor.post("/api/sign-in", {"user": ADMIN, "password": PASSWORD})[0] == 200
        visitor.run("SET flightllm.timeout = 77")
        assert server_query(server, "SELECT 1") == [(1,)]
        await_true(lambda: renewed(server))
        assert visitor.get("/api/me")[0] == 200
        assert visitor.rows("SHOW flightllm.timeout") == [[*TIMEOUT]]
        assert server.stop() == 0


@pytest.mark.slow
def test_a_successor_that_cannot_start(tmp_path: Path) -> None:
    """A successor that crashes leaves the present process, with its clients; so does one that finds a wrong file."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        await_true(lambda: len(server.children()) == 2)
        first = server.children()[0]
        (tmp_path / "functions" / "ai_f.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
        with dbapi.connect(server.uri, db_kwargs=COOKIES, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET flightllm.timeout = 77")
            cursor.execute("CREATE TABLE t AS SELECT 1 AS n")
            await_true(lambda: STAYED in server.log.read_text())
            cursor.execute("SELECT n FROM t")
            assert cursor.fetchall() == [(1,)]
            cursor.execute("SHOW flightllm.timeout")
            assert cursor.fetchall() == [TIMEOUT]
        assert server.query("SELECT n FROM t") == [(1,)]
        assert server.children()[0] == first
        assert not renewed(server)
        server.kill_worker()
        (tmp_path / "functions" / "ai_f.py").unlink()
        assert server.query_again("SELECT n FROM t") == [(1,)]


@pytest.mark.slow
def test_a_process_that_dies_while_its_successor_starts(tmp_path: Path) -> None:
    """A client that connects meanwhile waits, and the successor answers it."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        opening = halt_successors(tmp_path, server)
        answers = list[Any]()
        asking = threading.Thread(target=lambda: answers.append(server.query("SELECT n FROM t")))
        asking.start()
        server.kill_worker()
        (tmp_path / "go").touch()
        asking.join()
        assert answers == [[(1,)]]
        assert server.children()[0] == opening
        assert server.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_renewal(tmp_path: Path, number: int) -> None:
    """Both processes end, and the spare one."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        halt_successors(tmp_path, server)
        children = server.children()
        assert server.stop(number) == 0
        await_true(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


@pytest.mark.slow
def test_a_killed_successor_after_a_renewal(tmp_path: Path) -> None:
    """A renewed server that is killed is replaced like any other, at the same address."""
    with SupervisedServer(tmp_path, eager()) as server:
        await_true(lambda: len(server.children()) == 2)
        server.query("CREATE TABLE t AS SELECT 1 AS n")
        await_true(lambda: renewed(server) and len(server.children()) == 2)
        server.kill_worker()
        assert server.query_again("SELECT n FROM t") == [(1,)]
        assert server.stop() == 0


@pytest.mark.slow
def test_a_successor_that_dies_after_its_first_answers(tmp_path: Path) -> None:
    """What it acknowledged is there: the former process, whose tables are older, never goes on."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        patch = "from flightllm.session.database import Database\nDatabase.tidy = lambda _: threading.Event().wait()\n"
        successor = halt_successors(tmp_path, server, patch)
        (tmp_path / "go").touch()
        server.query("INSERT INTO t VALUES (2)")
        assert server.query("SELECT n FROM t ORDER BY n") == [(1,), (2,)]
        (tmp_path / "functions" / "ai_f.py").unlink()
        os.kill(successor, signal.SIGKILL)
        assert server.query_again("SELECT n FROM t ORDER BY n") == [(1,), (2,)]
        assert STAYED not in server.log.read_text()
        server.query("INSERT INTO t VALUES (3)")
        server.kill_worker()
        assert server.query_again("SELECT n FROM t ORDER BY n") == [(1,), (2,), (3,)]


@pytest.mark.slow
def test_a_successor_that_dies_before_the_former_has_ended(tmp_path: Path) -> None:
    """Another process serves then, as after any crash."""
    with SupervisedServer(tmp_path, with_functions(tmp_path)) as server:
        successor = halt_successors(tmp_path, server)
        former = server.children()[0]
        os.kill(former, signal.SIGSTOP)  # it ends late
        (tmp_path / "go").touch()
        await_true(lambda: renewed(server))
        (tmp_path / "functions" / "ai_f.py").unlink()
        os.kill(successor, signal.SIGKILL)
        assert server.query_again("SELECT n FROM t") == [(1,)]
        assert not {former, successor} & set(server.children())
        assert server.stop() == 0


@pytest.mark.slow
def test_a_prepared_statement_of_a_connection(tmp_path: Path) -> None:
    """A client without cookies or a login has a new session after a renewal, and its prepared statement runs in it."""
    with SupervisedServer(tmp_path, eager()) as server:
        await_true(lambda: len(server.children()) == 2)
        for schema, n in (("s", 1), ("public", 2)):
            server.query(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            server.query(f"CREATE TABLE {schema}.t AS SELECT {n} AS n")
        with dbapi.connect(server.uri, autocommit=True) as connection:
            cursor, other = connection.cursor(), connection.cursor()
            before = server.log.read_text().count("server process renewed")
            other.execute("SELECT n + ? AS m FROM t", (10,))
            assert other.fetchall() == [(12,)]
            await_true(lambda: renewed(server, before + 1))
            cursor.execute("SET search_path TO s")
            other.execute("SELECT n + ? AS m FROM t", (10,))
            assert other.fetchall() == [(11,)]
            cursor.close()
            other.close()
        assert server.stop() == 0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database."""
    with closing(Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))) as database:
        yield database


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Serve it in this process."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), LimitsConfig())
    yield server
    server.drain(0)


@pytest.mark.parametrize(
    ("bound", "end"),
    [
        ("BEGIN", "COMMIT"),
        ("CREATE TEMPORARY TABLE t AS SELECT 1 AS n", None),
        ("SET flightllm.timeout = 77", "RESET flightllm.timeout"),
        ("SELECT value FROM generate_series(1, 10000000)", None),
    ],
)
def test_what_another_process_cannot_continue(server: FlightSqlServer, bound: str, end: str | None) -> None:
    """A transaction, temporary tables, settings of a connection without cookies, and a statement that runs."""
    with dbapi.connect(server.uri, autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1")
        cursor.fetchall()
        await_true(lambda: can_move(server.core))  # a call ends a moment after its last row
        cursor.execute(bound)
        assert not can_move(server.core)
        if end is not None:
            cursor.execute(end)
            await_true(lambda: can_move(server.core))
        cursor.close()


def test_state_of_clients(server: FlightSqlServer, database: Database) -> None:
    """Bound values, a result of RETURNING, and a statement that was fetched move to another server of the database."""
    with dbapi.connect(server.uri, db_kwargs=COOKIES, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t AS SELECT 1 AS n")
        cursor.execute("SELECT n + ? AS m FROM t", (2,))
        assert cursor.fetchall() == [(3,)]
        cursor.execute("INSERT INTO t VALUES (5) RETURNING n")
        assert cursor.fetchall() == [(5,)]
        await_true(lambda: can_move(server.core))
        state = state_of(server.core)
    other = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), LimitsConfig())
    continue_from(state, other.core)
    assert len(other.core.sessions) == 1
    assert {handle for handle, *_ in other.core.prepared.entries()} >= {
        handle for handle, *_ in server.core.prepared.entries()
    }
    returned = [one.take().batches for _, _, one in other.core.statements.entries() if one.returned is not None]
    assert [[batch.to_pydict() for batch in batches] for batches in returned] == [[{"n": [5]}]]
    again = [
        one for _, _, one in other.core.statements.entries() if one.returned is None and one.parameters is not None
    ]
    assert [[batch.to_pydict() for batch in one.take().batches] for one in again] == [[{"m": [3, 7]}]]
    other.drain(0)


def test_a_call_that_goes_on(server: FlightSqlServer, database: Database) -> None:
    """A server that resumes lets a long call end, and takes new connections, also those that came meanwhile."""
    with closing(database.session()) as session:
        session.update("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 1000000)")
    with Client(server.uri) as client:
        batches = client.query("SELECT n FROM t")[1]
        rows = next(batches).num_rows
        sockets = server.pause(0.1)
        answers = list[int]()

        def ask() -> None:
            with Client(server.uri) as other:
                answers.append(sum(batch.num_rows for batch in other.query("SELECT 1")[1]))

        asking = threading.Thread(target=ask)
        asking.start()
        server.resume(sockets)
        asking.join()
        assert answers == [1]
        assert rows + sum(batch.num_rows for batch in batches) == 1_000_000
    assert server.uri.endswith(str(server.number))


def with_functions(folder: Path) -> str:
    """Return the settings of a server that is renewed early and reads a folder of functions when it starts."""
    (folder / "functions").mkdir()
    return eager(more=f'\n[functions]\nfolders = ["{folder / "functions"}"]')


def halt_successors(folder: Path, server: SupervisedServer, patch: str = "") -> int:
    """Let successors halt while they start, until there is a file `go`; return the process of the first one.

    `patch` is Python code that they run first.
    """
    await_true(lambda: len(server.children()) == 2)
    said, go = folder / "said", folder / "go"
    (folder / "functions" / "ai_f.py").write_text(
        f"import os, threading\nfrom pathlib import Path\n{patch}"
        f"Path({str(said)!r}).write_text(str(os.getpid()))\n"
        f"while not Path({str(go)!r}).exists():\n    threading.Event().wait(0.02)\n"
        "from flightllm.functions import AIFunction, Kind, Parameter, text_answer\n"
        "FUNCTION = AIFunction(name='ai_f', summary='Write.', returns='text',\n"
        "    parameters=(Parameter('article', Kind.FIELD),), build=lambda call: text_answer('Write.'))\n"
    )
    server.query("CREATE TABLE t AS SELECT 1 AS n")
    await_true(lambda: said.exists() and said.read_text() != "")
    return int(said.read_text())


def server_query(server: SupervisedServer, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement as the admin, and return its rows."""
    with dbapi.connect(server.uri, db_kwargs=LOGIN, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
