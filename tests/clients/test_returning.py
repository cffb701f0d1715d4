"""RETURNING through real clients: the change runs once, however often its rows are asked for."""

from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from pyarrow import flight

from flightllm.client import Client
from flightllm.flight.messages import pack, sql_message
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture
def cursor(server: FlightSqlServer) -> Iterator[Any]:
    """Open a cursor of ADBC over the small tables."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def history(database: Database) -> Any:
    """Return what counts the changes that ran so far."""
    session = database.session()

    def count() -> int:
        result = session.execute("SELECT count(*) AS n FROM system.queries WHERE kind = 'insert' AND status = 'done'")
        return int(pa.Table.from_batches(list(result.batches), result.schema)["n"][0].as_py())

    return count


def test_execute_and_fetch(cursor: Any, history: Any) -> None:
    """ADBC's execute and fetchall return the rows; the change ran once, and again when it is executed again."""
    insert = "INSERT INTO people (id, name) VALUES (3, 'Eve') RETURNING id, upper(name) AS n, score"
    cursor.execute(insert)
    assert cursor.fetchall() == [(3, "EVE", None)]
    assert history() == 1
    cursor.execute(insert)
    assert cursor.fetchall() == [(3, "EVE", None)]
    assert history() == 2
    cursor.execute("SELECT count(*) FROM people WHERE id = 3")
    assert cursor.fetchall() == [(2,)]


def test_runs_though_nobody_fetches(cursor: Any) -> None:
    """The change takes effect in execute, also where its rows are never fetched."""
    cursor.execute("DELETE FROM people WHERE id IN (SELECT person FROM likes) RETURNING *")
    cursor.execute("SELECT id FROM people")
    assert cursor.fetchall() == [(2,)]


def test_parameters(cursor: Any) -> None:
    """Parameters are bound in the change and in RETURNING; executemany runs once for each row of them."""
    cursor.execute("UPDATE people SET name = ? WHERE id IN (SELECT ?) RETURNING id, name", ("Ira", 2))
    assert cursor.fetchall() == [(2, "Ira")]
    cursor.executemany("INSERT INTO people (id, name) VALUES (?, ?) RETURNING id", [(7, "a"), (8, "b")])
    cursor.execute("SELECT id FROM people WHERE id > 6 ORDER BY id")
    assert cursor.fetchall() == [(7,), (8,)]


def test_count_of_an_update(cursor: Any) -> None:
    """Statements without RETURNING still answer how many rows they change."""
    cursor.execute("UPDATE people SET score = 0 FROM likes WHERE person = id")
    assert cursor.rowcount == 1


def test_tickets_are_replayed(bare: flight.FlightClient, history: Any) -> None:
    """DoGet of one ticket returns the same rows again and never runs the change."""
    sql = "INSERT INTO likes SELECT 9, 'x' RETURNING person, thing"
    descriptor = flight.FlightDescriptor.for_command(pack(sql_message("CommandStatementQuery", query=sql)))
    info = bare.get_flight_info(descriptor)
    first, second = (bare.do_get(info.endpoints[0].ticket).read_all() for _ in range(2))
    assert first == second
    assert first.to_pylist() == [{"person": 9, "thing": "x"}]
    assert info.schema == first.schema
    assert history() == 1


def test_schema_runs_nothing(bare: flight.FlightClient, history: Any) -> None:
    """GetSchema tells the columns of RETURNING and changes nothing."""
    sql = "INSERT INTO likes VALUES (9, 'x') RETURNING thing AS what, person + 1 AS next"
    descriptor = flight.FlightDescriptor.for_command(pack(sql_message("CommandStatementQuery", query=sql)))
    assert bare.get_schema(descriptor).schema.names == ["what", "next"]
    assert history() == 0


def test_own_client(client: Client) -> None:
    """The package's own client returns the rows too."""
    sql = "MERGE INTO likes USING people ON id = person WHEN MATCHED THEN DELETE RETURNING thing"
    schema, batches = client.query(sql)
    assert sorted(pa.Table.from_batches(batches, schema)["thing"].to_pylist()) == ["cats", "tea"]
