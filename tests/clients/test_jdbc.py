"""What Arrow's JDBC driver sends, call by call, and what Avatica does with the answers.

`ArrowFlightMetaImpl.prepareAndExecute` prepares a text, runs an update by DoPut, and hands its count to Avatica, which
takes a count of -1 for a result set, and opens it: GetFlightInfo for the same prepared statement, then DoGet.
"""

from dataclasses import dataclass

import pyarrow as pa
import pytest
import structlog
from pyarrow import flight

from flightllm.session.database import Database
from tests.flight_messages import count, descriptor, prepare, prepared, put


@dataclass(frozen=True)
class Executed:
    """What `java.sql.Statement` has after `execute`: a count, or rows."""

    updated: int
    rows: pa.Table | None


def execute(client: flight.FlightClient, sql: str, *, knows_is_update: bool = True) -> Executed:
    """Run a text as `java.sql.Statement.execute` does; drivers before 18.2 know an update by its empty schema."""
    answer = prepare(client, sql)
    handle = answer.prepared_statement_handle
    told = answer.dataset_schema
    columns = pa.ipc.read_schema(pa.py_buffer(told)) if told else pa.schema([])
    is_update = answer.is_update if knows_is_update else not columns
    updated = count(put(client, prepared(handle, "CommandPreparedStatementUpdate"), NOTHING)) if is_update else -1
    rows = None
    if updated == -1:
        info = client.get_flight_info(prepared(handle))
        rows = pa.concat_tables(client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints)
    return Executed(updated, rows)


NOTHING = pa.table({})
CREATED = (
    "CREATE TABLE jd (a INT)",
    "CREATE TABLE copied AS SELECT 1 AS a",
    "CREATE VIEW seen AS SELECT 1 AS a",
    "CREATE SCHEMA apart",
    "CREATE PROMPT greet AS 'Say hello'",
    "CREATE MODEL other OPTIONS (engine 'fake')",
)


@pytest.mark.parametrize("knows_is_update", [True, False])
def test_each_object_is_made_once(bare: flight.FlightClient, knows_is_update: bool) -> None:
    """CREATE runs once, and DROP of what was made, and CREATE again."""
    for _ in range(2):
        for statement in CREATED:
            assert execute(bare, statement, knows_is_update=knows_is_update).rows is None
        for statement in CREATED:
            _, kind, name, *_ = statement.split()
            assert execute(bare, f"DROP {kind} {name}", knows_is_update=knows_is_update).updated == 0


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("sql", "updated"),
    [
        ("CREATE TABLE made (a INT)", 0),
        ("CREATE TABLE IF NOT EXISTS people (a INT)", 0),
        ("CREATE OR REPLACE VIEW fans AS SELECT 1 AS a", 0),
        ("DROP VIEW fans", 0),
        ("DROP TABLE IF EXISTS nothing", 0),
        ("SET flightllm.cache = off", 0),
        ("RESET ALL", 0),
        ("DROP VECTOR INDEX IF EXISTS found", 0),
        ("TRUNCATE TABLE system.cache", 0),
        ("CREATE TABLE copied AS SELECT * FROM people", 2),
        ("INSERT INTO likes VALUES (2, 'rain'), (2, 'snow')", 2),
        ("INSERT INTO likes SELECT * FROM likes WHERE person > 9", 0),
        ("UPDATE likes SET thing = 'dogs' WHERE thing = 'cats'", 1),
        ("DELETE FROM likes", 2),
    ],
)
def test_counts(bare: flight.FlightClient, sql: str, updated: int) -> None:
    """What counts no rows answers 0 whichever way it is sent, DML its rows; never -1."""
    assert count(put(bare, descriptor("CommandStatementUpdate", query=sql), NOTHING)) == updated


@pytest.mark.parametrize("knows_is_update", [True, False])
def test_indexes_are_refreshed_once(bare: flight.FlightClient, database: Database, knows_is_update: bool) -> None:
    """REFRESH and CREATE of an index answer its rows, DROP none; each does its work once."""
    pytest.importorskip("faiss", reason="the extra 'vector' is not installed")
    database.session().update("CREATE TABLE points AS SELECT [1.0, 2.0] AS place")
    statements = (
        *("CREATE VECTOR INDEX near ON points(place)", "REFRESH VECTOR INDEX near"),
        *("INSERT INTO points VALUES ([3.0, 4.0])", "REFRESH VECTOR INDEX near", "DROP VECTOR INDEX near"),
    )
    with structlog.testing.capture_logs() as logs:
        found = [execute(bare, statement, knows_is_update=knows_is_update) for statement in statements]
    assert sum(one["event"] == "vector index built" for one in logs) == 3
    assert [(done.updated, done.rows) for done in found] == [(count, None) for count in (1, 1, 1, 2, 0)]


@pytest.mark.parametrize("sql", ["CREATE TABLE made (a INT)", "SET flightllm.cache = off"])
def test_counts_of_flight_infos(bare: flight.FlightClient, sql: str) -> None:
    """An update that ADBC executes like a query has the same count."""
    assert bare.get_flight_info(descriptor("CommandStatementQuery", query=sql)).total_records == 0


@pytest.mark.usefixtures("tables")
def test_rows_are_fetched(bare: flight.FlightClient) -> None:
    """A query is no update: its rows come from the prepared statement."""
    executed = execute(bare, "SELECT id FROM people")
    assert (executed.updated, executed.rows) == (-1, pa.table({"id": [1, 2]}))


def test_values_of_a_prepared_statement(bare: flight.FlightClient, database: Database) -> None:
    """`setInt` finds an integer parameter; the handle that binding answers with has the values."""
    database.session().update("CREATE TABLE numbers (n INT)")
    insert = prepare(bare, "INSERT INTO numbers VALUES (?)")
    (column,) = pa.ipc.read_schema(pa.py_buffer(insert.parameter_schema))
    values = pa.table([pa.array([1, 2], column.type)], names=[column.name])
    done = put(bare, prepared(insert.prepared_statement_handle, "CommandPreparedStatementUpdate"), values)
    assert (column.type, count(done)) == (pa.int32(), 2)
