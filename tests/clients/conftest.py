"""A Flight SQL server over a real database whose engine is `fake`, on a free port."""

from collections.abc import Iterator
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


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database without tables; each answer takes a quarter of a second."""
    engine = EngineConfig(kind="fake", max_in_flight=1, options={"latency_ms": 250.0})
    database = Database.open(Config(engine=engine, data_folder=tmp_path))
    yield database
    database.close()


@pytest.fixture
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run a server that asks for no token."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
    yield server
    server.drain(0)


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
def tables(database: Database) -> None:
    """Make two tables and a view."""
    for statement in MAKE:
        database.session().update(statement)
