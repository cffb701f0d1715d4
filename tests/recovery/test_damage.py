"""Files of the data folder are damaged before a server starts or while it runs: it says so, and loses nothing else."""

import os
import sys
import threading
from pathlib import Path

import pytest

from flightllm.access.store import AccessStore, User
from flightllm.client import Client
from flightllm.errors import EngineUnavailableError, FlightLLMError, InvalidInputError
from tests.servers import SupervisedServer, await_true

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

FAKE = '[engine]\nkind = "fake"\n[recovery]\nquarantine_seconds = 0'


@pytest.mark.parametrize(
    "name",
    [
        "objects.json",
        pytest.param("access.sqlite", marks=pytest.mark.slow),
        pytest.param("tables/manifest.json", marks=pytest.mark.slow),
    ],
)
def test_damaged_before_the_start(tmp_path: Path, name: str) -> None:
    """The server does not start, and says in one line which file it is."""
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x00no such file\xff" * 100)
    with SupervisedServer(tmp_path, FAKE) as server:
        assert server.process.wait(60) == 1
        [line] = [line for line in server.log.read_text().splitlines() if line.startswith("error: ")]
        assert Path(name).name in line
    assert path.read_bytes().startswith(b"\x00no such file")


@pytest.mark.slow
def test_objects_damaged_while_it_runs(tmp_path: Path) -> None:
    """The server has its models and prompts in memory: it goes on, and the next change writes all of them anew."""
    with SupervisedServer(tmp_path, FAKE) as server:
        server.query("CREATE PROMPT first AS 'x {n}'")
        (tmp_path / "data" / "objects.json").write_bytes(b"\x00")
        assert len(server.query("SHOW PROMPTS")) == 1
        server.query("CREATE PROMPT second AS 'y {n}'")
        server.kill_worker()
        assert len(server.query_again("SHOW PROMPTS")) == 2


@pytest.mark.slow
def test_users_damaged_while_it_runs(tmp_path: Path) -> None:
    """Nobody gets in who did not before, errors tell no path, and the process goes on."""
    path = tmp_path / "data" / "access.sqlite"
    path.parent.mkdir()
    store = AccessStore(path)
    store.add_user(User("ann", "admin"))
    token = store.add_token("ann")
    store.close()
    with SupervisedServer(tmp_path, FAKE) as server:
        worker = server.children()[0]
        with Client(server.uri, {"authorization": f"Bearer {token}"}) as client:
            assert len(list(client.query("SELECT 1")[1])) == 1
            with path.open("r+b") as file:
                file.write(os.urandom(path.stat().st_size))
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic YW5uOng="}):
            with Client(server.uri, headers) as another, pytest.raises(FlightLLMError) as caught:
                another.query("SELECT 1")
            assert str(tmp_path) not in str(caught.value)
            assert "internal error" not in str(caught.value)
        assert server.children()[0] == worker


@pytest.mark.slow
def test_an_index_cut_off_while_it_is_searched(tmp_path: Path) -> None:
    """An index file that shrinks may kill the process that reads it; the next one tells that the index is damaged."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    pytest.importorskip("tantivy", reason="the extra 'vector' is not installed")
    search = "SELECT id, score FROM vector_search('i', 'text 7', top_k => 3, mode => 'text')"
    with SupervisedServer(tmp_path, FAKE + '\n[embedding]\nkind = "fake"') as server:
        server.query(
            "CREATE TABLE docs AS SELECT n AS id, concat('text ', n) AS s FROM generate_series(1, 20000) AS g(n)"
        )
        server.query("CREATE VECTOR INDEX i ON docs(s)")
        assert len(server.query(search)) == 3
        for path in (tmp_path / "data" / "vectors").glob("*/*/**/*"):
            if path.is_file():
                os.truncate(path, path.stat().st_size // 3)
        for _ in range(3):
            try:
                server.query_again(search)
            except InvalidInputError as error:
                assert "damaged" in str(error)  # noqa: PT017 -- it may be told at once, or once the process was replaced
        assert server.query_again("SELECT count(*) FROM docs") == [(20_000,)]
        assert "damaged" in server.query_again("SELECT status FROM system.vector_indexes")[0][0]
        server.query_again("CREATE OR REPLACE VECTOR INDEX i ON docs(s)")
        assert len(server.query_again(search)) == 3


@pytest.mark.parametrize(("kills", "clients"), [(1, 1), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_rows_acknowledged_before_a_kill_are_there(tmp_path: Path, kills: int, clients: int) -> None:
    """Clients insert while the process is killed again and again: each row acknowledged is there, no other twice."""
    stop = threading.Event()
    acknowledged: list[int] = []
    doubtful: list[int] = []
    strange: list[Exception] = []

    def insert(server: SupervisedServer, first: int) -> None:
        for number in range(first, first + 1_000_000):
            if stop.is_set():
                return
            try:
                server.query(f"INSERT INTO kept VALUES ({number})")
            except EngineUnavailableError:
                doubtful.append(number)
            except Exception as error:  # noqa: BLE001 -- of a thread: the test looks at it
                strange.append(error)
                return
            else:
                acknowledged.append(number)

    with SupervisedServer(tmp_path, FAKE) as server:
        server.query("CREATE TABLE kept (n BIGINT)")
        threads = [threading.Thread(target=insert, args=(server, one * 1_000_000)) for one in range(clients)]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            before = len(acknowledged)
            await_true(lambda before=before: bool(strange) or len(acknowledged) > before + 8)  # type: ignore[misc]
            server.kill_worker()
        before = len(acknowledged)
        await_true(lambda: bool(strange) or len(acknowledged) > before + 8)
        stop.set()
        for thread in threads:
            thread.join(60)
        assert strange == []
        found = [n for (n,) in server.query_again("SELECT n FROM kept ORDER BY n")]
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= set(acknowledged) | set(doubtful)
    assert doubtful
