"""A real server with two users, and the official client of the protocol, connected in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.mcp.support import Agent, agent


@pytest.fixture(scope="package")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database whose model has a price, with the users root and ann; ann can read only the table `open_t`."""
    engine = EngineConfig("fake", max_in_flight=4, price_output=100.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path_factory.mktemp("data")))
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS a, 'text ' || value AS b FROM generate_series(1, 500)")
    for user in (User("root", "admin"), User("ann", "user")):
        store.add_user(user, "a long password")
    admin.update("GRANT SELECT ON open_t TO ann")
    yield database
    database.close()


@pytest.fixture(scope="package")
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run the server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


@pytest.fixture
def as_user(database: Database, server: FlightSqlServer) -> Callable[..., Agent]:
    """Return how to make an agent of a user, with options of `Limits`."""

    def make(name: str = "root", **limits: Any) -> Agent:
        return agent(server.uri, database.access.store.add_token(name), **limits)

    return make


@pytest.fixture
def run() -> Callable[[Awaitable[Any]], Any]:
    """Return how to wait for asynchronous work, at most a minute."""

    def wait(work: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, 60)

        return asyncio.run(bounded())

    return wait
