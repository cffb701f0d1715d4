"""Connections to a database in this process and to a server, both with made-up answers."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import flightllm
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database


def fake(folder: Path, latency_ms: float = 0.0, price: float | None = None) -> Config:
    """Return a configuration whose model makes up its answers."""
    engine = EngineConfig("fake", "demo", 4, {"latency_ms": latency_ms}, price_output=price)
    return Config(engine=engine, data_folder=folder)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server for the module."""
    with closing(Database.open(fake(tmp_path_factory.mktemp("server"), 20))) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        try:
            yield server.uri
        finally:
            server.drain(0)


@pytest.fixture(params=["embedded", "remote"])
def both(request: pytest.FixtureRequest, tmp_path: Path, address: str) -> Iterator[flightllm.Connection]:
    """Return a connection to a database of this process, and one to a server."""
    target = fake(tmp_path, 20) if request.param == "embedded" else address
    with flightllm.connect(target) as connection:
        yield connection


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[flightllm.Connection]:
    """Return a connection to a database of this process."""
    with flightllm.connect(fake(tmp_path)) as connection:
        yield connection
