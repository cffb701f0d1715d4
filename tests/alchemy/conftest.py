"""A server over the fake engine, and an engine of SQLAlchemy that connects to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

alchemy: Any = pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="session", autouse=True)
def dialect() -> None:
    """Register the dialect; an installed package does so by its entry point."""
    from sqlalchemy.dialects import registry

    for name in ("flightllm", "flightllm.adbc"):
        registry.register(name, "flightllm.alchemy.dialect", "FlightLLMDialect")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database for the tests of one file."""
    engine = EngineConfig(kind="fake", max_in_flight=8)
    opened = Database.open(Config(engine=engine, data_folder=tmp_path_factory.mktemp("data")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Serve it on a free port."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    yield server
    server.drain(0)


@pytest.fixture(scope="module")
def url(server: FlightSqlServer) -> str:
    """Return the server's address."""
    return f"flightllm://127.0.0.1:{server.port}/"


@pytest.fixture(scope="module")
def engine(url: str) -> Iterator[Any]:
    """Connect to the server."""
    engine = alchemy.create_engine(url)
    yield engine
    engine.dispose()
