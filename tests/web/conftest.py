"""A real server with users of each role, and its page over HTTP."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.web.support import PAGE, PASSWORD, Visitor


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with a slow engine, users of each role, a table that is granted and one that is not."""
    engine = EngineConfig("fake", max_in_flight=4, options={"latency_ms": 100})
    database = Database.open(Config(engine=engine, data_folder=tmp_path_factory.mktemp("data")))
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS a, 'text' AS b FROM generate_series(1, 2000)")
    for user in (User("root", "admin"), User("ann", "user"), User("rob", "readonly")):
        store.add_user(user, PASSWORD)
    for name in ("ann", "rob"):
        admin.update(f"GRANT SELECT ON open_t TO {name}")
    admin.update("CREATE MODEL shut_m OPTIONS (engine 'fake')")
    admin.update("CREATE PROMPT shut_p AS 'What is it?'")
    yield database
    database.close()


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run the server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


@pytest.fixture(scope="module")
def page(database: Database, server: FlightSqlServer) -> Iterator[str]:
    """Serve the page, and return its address."""
    with HttpServer(PAGE, database, server) as http_server:
        yield http_server.uri or ""


@pytest.fixture
def visit(page: str, database: Database) -> Callable[[str], Visitor]:
    """Return how to visit the page as a user, signed in by an API token: passwords are slow on purpose."""

    def sign_in(name: str) -> Visitor:
        visitor = Visitor(page)
        token = database.access.store.add_token(name)
        assert visitor.post("/api/sign-in", {"user": name, "password": token})[0] == 200
        return visitor

    return sign_in


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[str]:
    """Serve the page of a server without users."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    with HttpServer(PAGE, database, server) as http_server:
        yield http_server.uri or ""
    server.drain(0)
    database.close()
