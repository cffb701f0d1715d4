"""A Flight SQL server over a small real database, on a free port."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.client import Client
from flightllm.config import ServerConfig
from flightllm.flight.server import FlightSqlServer


@pytest.fixture(scope="session")
def support() -> Any:
    """Return the module beside this file; test folders are no packages."""
    spec = importlib.util.spec_from_file_location("flight_support", Path(__file__).with_name("support.py"))
    if spec is None or spec.loader is None:
        raise FileNotFoundError("support.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(support: Any) -> Any:
    """Return a fresh database."""
    return support.TinyDatabase()


@pytest.fixture
def server(database: Any) -> Iterator[FlightSqlServer]:
    """Run a server that asks for no token."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
    yield server
    server.drain(0)


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[Client]:
    """Connect the package's own client."""
    with Client(server.uri) as client:
        yield client
