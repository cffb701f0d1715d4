"""Another FlightLLM as an attached database, also this server itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import FlightLLMError, SqlError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import SMALL, open_database, rows
from tests.servers import serving


@pytest.fixture
def other(tmp_path: Path) -> Iterator[tuple[FlightSqlServer, Database]]:
    """Run another server with the small tables, and a table with a column that has no equal."""
    with serving(tmp_path / "other") as server:
        database = server._core.database
        assert isinstance(database, Database)
        for statement in (*SMALL, "CREATE TABLE nested AS SELECT 1 AS id, [1, 2] AS list, 'x' AS t"):
            database.session().update(statement)
        yield server, database


def test_another_server(tmp_path: Path, other: tuple[FlightSqlServer, Database]) -> None:
    """Its rows join tables here; a nested column is an error that names it, and the others can be read."""
    server, database = other
    here = open_database(tmp_path / "here")
    session = here.session()
    session.update("CREATE TABLE mine AS SELECT 1 AS id UNION ALL SELECT 7")
    session.update(f"ATTACH 'grpc://127.0.0.1:{server.port}' AS o")
    expected = rows(database.session(), "SELECT id, name, score, day FROM people WHERE id IN (1, 7) ORDER BY id")
    query = "SELECT id, name, score, day FROM o.people JOIN mine USING (id) WHERE name = 'Ann' AND id < 100 ORDER BY id"
    assert rows(session, query) == expected
    assert rows(session, "SELECT id, t FROM o.public.nested") == [{"id": 1, "t": "x"}]
    with pytest.raises(FlightLLMError, match=r"the column 'list' of public.nested has the type list.*casts it to text"):
        rows(session, "SELECT * FROM o.nested")
    here.close()


def test_a_server_attaches_itself(other: tuple[FlightSqlServer, Database]) -> None:
    """A server whose tables are read lists its own tables meanwhile, and does not wait for itself."""
    server, database = other
    session = database.session()
    session.update(f"ATTACH 'grpc://127.0.0.1:{server.port}' AS me (CONNECT_SECONDS 5)")
    assert rows(session, "SELECT count(*) AS n FROM me.people") == [{"n": 9}]


def test_a_server_that_is_gone(tmp_path: Path) -> None:
    """A server that does not answer is told."""
    session = open_database(tmp_path).session()
    with pytest.raises(SqlError, match="the attached database 'o' failed: "):
        session.update("ATTACH 'grpc://127.0.0.1:1' AS o (CONNECT_SECONDS 2)")
