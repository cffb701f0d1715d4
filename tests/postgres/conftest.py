"""Servers of the PostgreSQL protocol: one open to everybody, and one with users."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra 'test' is not installed")

import psycopg

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, PostgresConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.server import PostgresServer
from flightllm.session.database import Database
from tests.postgres import binaries, cluster
from tests.postgres.support import PASSWORD, Place

LISTEN = PostgresConfig("127.0.0.1:0")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with a slow engine and a table."""
    engine = EngineConfig("fake", max_in_flight=4, options={"latency_ms": 50})
    database = Database.open(Config(engine=engine, data_folder=tmp_path_factory.mktemp("data")))
    database.session().update(
        "CREATE TABLE t AS SELECT value AS a, 'text ' || value AS b FROM generate_series(1, 10000)"
    )
    yield database
    database.close()


@pytest.fixture(scope="module")
def flight(database: Database) -> Iterator[FlightSqlServer]:
    """Run the Flight SQL server beside it."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


@pytest.fixture(scope="module")
def place(flight: FlightSqlServer) -> Iterator[Place]:
    """Serve PostgreSQL's protocol to everybody."""
    with PostgresServer(LISTEN, flight.core) as server:
        yield Place(server.port or 0)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database with users of each role, a table that is granted and one that is not."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path_factory.mktemp("data")))
    admin, store = database.session(), database.access.store
    for name in ("open_t", "shut_t"):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS a, 'text' AS b FROM generate_series(1, 100)")
    for user in (User("root", "admin"), User("ann", "user"), User("rob", "readonly")):
        store.add_user(user, PASSWORD)
    for name in ("ann", "rob"):
        admin.update(f"GRANT SELECT ON open_t TO {name}")
    admin.update("CREATE MODEL shut_m OPTIONS (engine 'fake')")
    yield database
    database.close()


@pytest.fixture(scope="module")
def door(guarded: Database) -> Iterator[Place]:
    """Serve PostgreSQL's protocol to users."""
    flight = FlightSqlServer(guarded, ServerConfig("127.0.0.1:0"), login=guarded.access.login)
    with PostgresServer(LISTEN, flight.core) as server:
        yield Place(server.port or 0)
    flight.drain(0)


@pytest.fixture(scope="session")
def reference() -> Iterator["psycopg.Connection[Any]"]:
    """Connect to a real PostgreSQL; skip where it is not installed."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with cluster() as real:
        where = f"host={real.folder} user={real.user} dbname=postgres options='-c timezone=UTC -c lc_messages=C'"
        with psycopg.connect(where, autocommit=True) as connection:
            yield connection
