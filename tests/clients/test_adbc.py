"""The ADBC Flight SQL driver against a real server."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager.dbapi
import pyarrow as pa
import pytest
from adbc_driver_flightsql import ConnectionOptions

from flightllm.flight.server import FlightSqlServer
from flightllm.session import Database

Connection = adbc_driver_manager.dbapi.Connection
SLOW = "SELECT max(ai_gen('What of {n}?', n)) AS a FROM numbers"
"""Three hundred answers, one after the other, before the first row."""


@pytest.fixture
def connection(server: FlightSqlServer) -> Iterator[Connection]:
    """Connect without user or password."""
    with adbc.connect(server.uri, autocommit=True) as connection:
        yield connection


@pytest.fixture
def cursor(connection: Connection) -> Iterator[Any]:
    """Open a cursor."""
    with connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def movies(cursor: Any) -> pa.Table:
    """Upload a small table."""
    table = pa.table({"title": ["A", "B", "C"], "year": [1990, 2000, 2010]})
    cursor.adbc_ingest("movies", table)
    return table


@pytest.fixture
def numbers(cursor: Any) -> None:
    """Upload three hundred rows."""
    cursor.adbc_ingest("numbers", pa.table({"n": range(300)}))


def test_fetch_arrow_table(cursor: Any, movies: pa.Table) -> None:
    """A whole result."""
    cursor.execute("SELECT * FROM movies")
    assert cursor.fetch_arrow_table() == movies


def test_fetch_record_batch(cursor: Any, movies: pa.Table) -> None:
    """A result batch by batch."""
    cursor.execute("SELECT * FROM movies")
    assert cursor.fetch_record_batch().read_all() == movies


@pytest.mark.usefixtures("movies")
def test_rows(cursor: Any) -> None:
    """Rows as the DB-API gives them."""
    cursor.execute("SELECT title FROM movies ORDER BY year DESC")
    assert [name for name, *_ in cursor.description] == ["title"]
    assert cursor.fetchone() == ("C",)
    assert cursor.fetchall() == [("B",), ("A",)]


@pytest.mark.usefixtures("movies")
def test_parameters(cursor: Any) -> None:
    """Values are bound, not pasted."""
    cursor.execute("SELECT title FROM movies WHERE year > ? AND title <> ?", (1995, "it's"))
    assert cursor.fetchall() == [("B",), ("C",)]


@pytest.mark.usefixtures("movies")
def test_executemany(cursor: Any) -> None:
    """Several rows of parameters are one update call."""
    cursor.executemany("INSERT INTO movies VALUES (?, ?)", [("D", 2020), ("E", 2021)])
    assert cursor.rowcount == 2
    cursor.execute("SELECT count(*) FROM movies")
    assert cursor.fetchone() == (5,)


def test_ddl_runs_once(cursor: Any) -> None:
    """`execute` of DDL and DML runs it although nothing is fetched, and once: a second CREATE would fail."""
    cursor.execute("CREATE TABLE t AS SELECT 1 AS a")
    cursor.execute("INSERT INTO t VALUES (2)")
    cursor.execute("SELECT * FROM t ORDER BY a")
    assert cursor.fetchall() == [(1,), (2,)]


def test_ingest_modes(cursor: Any, movies: pa.Table) -> None:
    """Create, append, replace and create or append."""
    with pytest.raises(adbc.ProgrammingError, match="exists"):
        cursor.adbc_ingest("movies", movies, mode="create")
    assert cursor.adbc_ingest("movies", movies, mode="append") == 3
    cursor.execute("SELECT count(*) FROM movies")
    assert cursor.fetchone() == (6,)
    cursor.adbc_ingest("movies", movies, mode="replace")
    cursor.execute("SELECT count(*) FROM movies")
    assert cursor.fetchone() == (3,)
    assert cursor.adbc_ingest("other", movies.to_reader(), mode="create_append") == 3
    with pytest.raises(adbc.ProgrammingError, match="nothing"):
        cursor.adbc_ingest("nothing", movies, mode="append")


def test_get_objects(connection: Connection, movies: pa.Table) -> None:
    """Catalog, schemas, tables and columns in one call."""
    (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    assert catalog["catalog_name"] == "flightllm"
    schemas = {schema["db_schema_name"]: schema for schema in catalog["catalog_db_schemas"]}
    (table,) = schemas["public"]["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("movies", "TABLE")
    assert [column["column_name"] for column in table["table_columns"]] == movies.column_names
    assert "system" in schemas


def test_metadata(connection: Connection, cursor: Any, movies: pa.Table) -> None:
    """Table schema, types, names and versions."""
    assert connection.adbc_get_table_schema("movies") == movies.schema
    assert connection.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]
    assert connection.adbc_get_info()["vendor_name"] == "FlightLLM"
    assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("flightllm", "public")
    assert cursor.adbc_execute_schema("SELECT year FROM movies") == pa.schema([("year", pa.int64())])


@pytest.mark.usefixtures("numbers")
def test_session_options(connection: Connection, cursor: Any) -> None:
    """A session option stays for the connection."""
    assert cursor.execute("EXPLAIN " + SLOW).fetchone()[0] != "batch functions"
    connection.adbc_connection.set_options(
        **{ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "optimizer": "off"}
    )
    assert cursor.execute("EXPLAIN " + SLOW).fetchone()[0] == "batch functions"


@pytest.mark.usefixtures("numbers")
def test_cancel_before_the_first_batch(cursor: Any, database: Database) -> None:
    """A query that computes without giving rows is stopped by the client."""
    threading.Timer(0.5, cursor.adbc_cancel).start()
    with pytest.raises(adbc.OperationalError, match=r"(?i)cancel"):
        cursor.execute(SLOW).fetchall()
    assert _ended(database)
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == (1,)


def test_user_and_password(server: FlightSqlServer) -> None:
    """A driver that logs in gets a session of its own."""
    with (
        adbc.connect(server.uri, db_kwargs={"username": "u", "password": "p"}, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_bad_sql(cursor: Any) -> None:
    """The message arrives; the connection goes on."""
    with pytest.raises(adbc.ProgrammingError, match="nope"):
        cursor.execute("SELECT nope")
    cursor.execute("SELECT 1")
    assert cursor.fetchone() == (1,)


@pytest.mark.usefixtures("numbers")
def test_two_connections(server: FlightSqlServer) -> None:
    """A cancelled query of one client does not disturb another's."""
    with (
        adbc.connect(server.uri, autocommit=True) as one,
        adbc.connect(server.uri, autocommit=True) as two,
        one.cursor() as slow,
        two.cursor() as quick,
    ):
        failures: list[Exception] = []
        thread = threading.Thread(target=_run, args=(slow, SLOW, failures))
        thread.start()
        for _ in range(5):
            quick.execute("SELECT 1")
            assert quick.fetchone() == (1,)
        slow.adbc_cancel()
        thread.join(30)
        assert len(failures) == 1


def _run(cursor: Any, sql: str, failures: list[Exception]) -> None:
    try:
        cursor.execute(sql).fetchall()
    except adbc.Error as exc:
        failures.append(exc)


def _ended(database: Database) -> bool:
    """Wait until no query runs any more."""
    deadline = time.monotonic() + 30
    while database.queries.running() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not database.queries.running()
