"""A Flight SQL server over a real database whose engine is `fake`, on a free port."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import flight

from flightllm.client import Client
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

MAKE = (
    """CREATE TABLE people AS SELECT * FROM (VALUES
        (1, 'Ann', DATE '2024-01-02', 1.5), (2, NULL, NULL, NULL)) AS v(id, name, day, score)""",
    "CREATE TABLE likes AS SELECT * FROM (VALUES (1, 'tea'), (1, 'cats')) AS v(person, thing)",
    "CREATE VIEW fans AS SELECT name, thing FROM people JOIN likes ON person = id",
)


@contextmanager
def _opened(folder: Path) -> Iterator[Database]:
    engine = EngineConfig(kind="fake", max_in_flight=1, options={"latency_ms": 250.0})
    database = Database.open(Config(engine=engine, data_folder=folder))
    yield database
    database.close()


@contextmanager
def _serving(database: Database) -> Iterator[FlightSqlServer]:
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
    yield server
    server.drain(0)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database without tables; each answer takes a quarter of a second."""
    with _opened(tmp_path) as database:
        yield database


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server that asks for no token."""
    with _serving(database) as server:
        yield server


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightSqlServer]:
    """Run such a server with two tables and a view for those tests of a file that change nothing of it."""
    with _opened(tmp_path_factory.mktemp("unchanged")) as database:
        _make(database)
        with _serving(database) as server:
            yield server


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[Client]:
    """Connect the package's own client."""
    with Client(server.uri) as client:
        yield client


@pytest.fixture
def bare(server: FlightSqlServer) -> Iterator[flight.FlightClient]:
    """Connect a bare Flight client."""
    with flight.connect(server.uri) as client:
        yield client


@pytest.fixture
def reading(unchanged: FlightSqlServer) -> Iterator[flight.FlightClient]:
    """Connect a bare Flight client to the server that nothing changes."""
    with flight.connect(unchanged.uri) as client:
        yield client


@pytest.fixture
def tables(database: Database) -> None:
    """Make two tables and a view."""
    _make(database)


def _make(database: Database) -> None:
    for statement in MAKE:
        database.session().update(statement)
