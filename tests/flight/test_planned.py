"""A plan that nobody fetches keeps what tables were only for a while."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.config import ServerConfig
from flightllm.flight.limits import FlightLimits
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.databases import open_database
from tests.flight_messages import prepare, prepared, put, query


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


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["first fetch", "second fetch"])
@pytest.mark.parametrize("columns", ["1 AS b", "'x' AS a", "1 AS a, 2 AS b"], ids=["name", "type", "number"])
def test_other_columns_than_told(database: Database, seconds: float, columns: str) -> None:
    """A ticket whose query is planned again is refused once it has other columns, and works where only rows differ."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), flight_limits=FlightLimits(planned_seconds=seconds))
    with closing(flight.connect(server.uri)) as client:
        ticket = client.get_flight_info(query("SELECT * FROM t")).endpoints[0].ticket
        if seconds:
            assert client.do_get(ticket).read_all().to_pylist() == [{"a": 1}]
        client.get_flight_info(query(f"CREATE OR REPLACE TABLE t AS SELECT {columns}"))
        with pytest.raises(pa.ArrowInvalid, match=r"has changed.*run the query again"):
            client.do_get(ticket).read_all()
        client.get_flight_info(query("CREATE OR REPLACE TABLE t AS SELECT 7 AS a"))
        assert client.do_get(ticket).read_all().to_pylist() == [{"a": 7}]
    assert not database.queries.running()
    server.drain(0)


def test_columns_with_a_dollar(database: Database) -> None:
    """A prepared query has the columns that its table has now, whatever they were called before."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with closing(flight.connect(server.uri)) as client:
        client.get_flight_info(query('CREATE OR REPLACE TABLE t AS SELECT 1 AS "a$", 2 AS b'))
        command = prepared(prepare(client, "SELECT *, ? AS c, ? + 1 FROM t").prepared_statement_handle)
        client.get_flight_info(query('CREATE OR REPLACE TABLE t AS SELECT 1 AS b, 2 AS "a$"'))
        put(client, command, pa.table({"0": [3], "1": [4]}))
        assert client.get_flight_info(command).schema.names == ["b", "a$", "c", "$2 + 1"]
    server.drain(0)
