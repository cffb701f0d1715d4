"""A plan that nobody fetches keeps what tables were only for a while."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import flight

from flightllm.config import ServerConfig
from flightllm.database import Database
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from tests.databases import open_database
from tests.flight_messages import query


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with a table."""
    with closing(open_database(tmp_path)) as database:
        database.session().update("CREATE TABLE t AS SELECT 1 AS a")
        yield database


@pytest.mark.parametrize(("seconds", "folders"), [(0.0, 1), (60.0, 6)])
def test_an_unfetched_plan(database: Database, tmp_path: Path, seconds: float, folders: int) -> None:
    """Once it is old, changes leave no former state on disk; its ticket can be fetched all the same."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), flight_limits=FlightLimits(planned_seconds=seconds))
    with closing(flight.connect(server.uri)) as client:
        info = client.get_flight_info(query("SELECT count(*) AS n FROM t"))
        for _ in range(5):
            client.get_flight_info(query("INSERT INTO t VALUES (2)"))
        assert len(list((tmp_path / "tables" / "reading").iterdir())) == folders
        rows = client.do_get(info.endpoints[0].ticket).read_all()
        assert rows.to_pylist() == [{"n": 1 if seconds else 6}]
    server.drain(0)
