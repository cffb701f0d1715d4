"""The ADBC Flight SQL driver against a real server."""

import threading
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager.dbapi
import pyarrow as pa
import pytest
from adbc_driver_flightsql import ConnectionOptions

from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from tests.servers import await_true

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


@pytest.mark.usefixtures("movies")
@pytest.mark.parametrize(
    ("depth", "filters", "found"),
    [
        ("catalogs", {}, ["flightllm"]),
        ("catalogs", {"catalog_filter": "flight%"}, ["flightllm"]),
        ("catalogs", {"catalog_filter": "nope"}, []),
        ("db_schemas", {}, ["flightllm.public", "flightllm.system"]),
        ("db_schemas", {"db_schema_filter": "pub%"}, ["flightllm.public"]),
        ("db_schemas", {"db_schema_filter": "nope"}, []),
        ("tables", {"db_schema_filter": "public"}, ["flightllm.public.movies"]),
        ("tables", {"table_name_filter": "m_vies"}, ["flightllm.public.movies"]),
        ("tables", {"table_name_filter": "nope"}, []),
        ("tables", {"catalog_filter": "nope"}, []),
        ("tables", {"table_types_filter": ["VIEW"]}, []),
        ("columns", {"table_name_filter": "movies"}, ["flightllm.public.movies.title", "flightllm.public.movies.year"]),
        ("columns", {"table_name_filter": "movies", "column_name_filter": "y%"}, ["flightllm.public.movies.year"]),
    ],
)
def test_get_objects_filtered(connection: Connection, depth: str, filters: dict[str, Any], found: list[str]) -> None:
    """Each depth, narrowed by each filter, as dotted names."""
    objects = connection.adbc_get_objects(depth=depth, **filters).read_all().to_pylist()  # type: ignore[arg-type]
    assert list(_dotted(objects, ["catalog", "db_schema", "table", "column"], depth)) == found


def _dotted(objects: list[dict[str, Any]], levels: list[str], depth: str) -> Iterator[str]:
    for entry in objects:
        name = entry[f"{levels[0]}_name"]
        below = entry.get(f"{levels[0]}_{levels[1]}s") if len(levels) > 1 else None
        if depth == f"{levels[0]}s" or below is None:
            yield name
        else:
            yield from (f"{name}.{rest}" for rest in _dotted(below, levels[1:], depth))


def test_columns_have_type_names(connection: Connection, cursor: Any) -> None:
    """What JDBC and ODBC call a column's type is among its properties."""
    cursor.execute("CREATE TABLE t (a INT, b VARCHAR, c TIMESTAMP WITH TIME ZONE, d DECIMAL(10, 2))")
    (catalog,) = connection.adbc_get_objects(depth="columns", table_name_filter="t").read_all().to_pylist()
    columns = catalog["catalog_db_schemas"][0]["db_schema_tables"][0]["table_columns"]
    names = ["INTEGER", "VARCHAR", "TIMESTAMP WITH TIME ZONE", "DECIMAL"]
    assert [column["xdbc_type_name"] for column in columns] == names
    assert [column["ordinal_position"] for column in columns] == [1, 2, 3, 4]


def test_errors_have_codes(cursor: Any) -> None:
    """An error's details have its SQLSTATE."""
    with pytest.raises(adbc.ProgrammingError, match="not found") as caught:
        cursor.execute("SELECT * FROM nope")
    details: list[Any] = caught.value.details  # its names are bytes, not what their type says
    assert (b"x-flightllm-sqlstate", b"42P01") in details


def test_what_there_is_not(connection: Connection) -> None:
    """Statistics are refused as unsupported."""
    with pytest.raises(adbc.NotSupportedError):
        connection.adbc_get_statistics()


@pytest.mark.parametrize("parts", [1, 4])
def test_partitions(connection: Connection, cursor: Any, server: FlightSqlServer, parts: int) -> None:
    """As many partitions as the session asks for, each read over a connection of its own; all rows once."""
    prefix = ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value
    connection.adbc_connection.set_options(**{f"{prefix}flightllm.endpoints": str(parts)})
    partitions, schema = cursor.adbc_execute_partitions("SELECT value AS n FROM generate_series(1, 100000)")
    assert (len(partitions), schema) == (parts, pa.schema([("n", pa.int64())]))
    rows: list[int] = []
    for partition in reversed(partitions):
        with adbc.connect(server.uri, autocommit=True) as other, other.cursor() as reader:
            reader.adbc_read_partition(partition)
            rows += reader.fetch_arrow_table().column(0).to_pylist()
    assert sorted(rows) == list(range(1, 100_001))
    cursor.execute("SELECT value AS n FROM generate_series(1, 100000)")
    assert sorted(cursor.fetch_arrow_table().column(0).to_pylist()) == list(range(1, 100_001))


def test_many_rows_of_parameters(cursor: Any, movies: pa.Table) -> None:
    """INSERT, UPDATE and DELETE count the rows of all their parameters; a query has to be executed row by row."""
    rows = [(f"T{i}", i) for i in range(2_500)]
    cursor.executemany("INSERT INTO movies (title,year) VALUES ($1,$2)", rows)
    assert cursor.rowcount == 2_500
    cursor.executemany("UPDATE movies SET title = ? WHERE year = ?", [("X", 1), ("Y", 2), ("Z", 9_999)])
    assert cursor.rowcount == 2
    cursor.executemany("DELETE FROM movies WHERE year = ?", [(1,), (2,)])
    assert cursor.rowcount == 2
    cursor.execute("SELECT count(*) FROM movies")
    assert cursor.fetchone() == (2_498 + movies.num_rows,)
    with pytest.raises(adbc.ProgrammingError, match="is a query"):
        cursor.executemany("SELECT ?", [(1,), (2,)])


def test_the_same_statement_with_other_values(cursor: Any) -> None:
    """A prepared query runs again with new values, also of another type."""
    for value in (1, "text", 1.5, None, b"x"):
        cursor.execute("SELECT ? AS v", (value,))
        assert cursor.fetchone() == (value,)


def test_sent_as_the_wrong_kind(cursor: Any) -> None:
    """A query sent as an update is told so."""
    cursor.adbc_statement.set_sql_query("SELECT 1")
    with pytest.raises(adbc.ProgrammingError, match="returns rows"):
        cursor.adbc_statement.execute_update()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("CREATE TABLE made (id INT, value VARCHAR(10))", 0),
        ("INSERT INTO made (id) VALUES (1), (2)", 2),
        ("INSERT INTO made SELECT * FROM made WHERE id > 2", 0),
        ("UPDATE made SET id = id + 1 WHERE id = 2", 1),
        ("DELETE FROM made", 2),
        ("SET flightllm.cache = off", 0),
        ("SET TIME ZONE 'UTC'", 0),
        ("USE public", 0),
        ("BEGIN", 0),
        ("CREATE VIEW seen AS SELECT id FROM made", 0),
        ("DROP VIEW seen", 0),
        ("DROP TABLE made", 0),
        ("DROP TABLE IF EXISTS made", 0),
        ("DROP TABLE made, flightllm.public.made", 0),
        ("DROP TABLE IF EXISTS made, public.nothing", 0),
    ],
)
def test_rows_affected(database: Database, cursor: Any, sql: str, rows: int) -> None:
    """An update and a query both say how many rows a statement changed; DDL and SET changed none."""
    session = database.session()
    for prepared in (False, True):
        session.update("CREATE OR REPLACE TABLE made AS SELECT 1 AS id, 'x' AS value UNION ALL SELECT 2, 'y'")
        session.update("CREATE OR REPLACE VIEW seen AS SELECT 1 AS id")
        if sql.startswith(("CREATE", "DROP TABLE IF")):
            session.update("DROP VIEW seen")
            session.update("DROP TABLE made")
            if "seen" in sql:
                session.update("CREATE TABLE made (id INT)")
        if prepared:
            cursor.execute(sql)
            assert cursor.rowcount == rows
        else:
            cursor.adbc_statement.set_sql_query(sql)
            assert cursor.adbc_statement.execute_update() == rows


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


def test_types_of_session_options(connection: Connection, cursor: Any) -> None:
    """An option is read as the type that it was set as, as long as its value is one; else as text."""
    session = connection.adbc_connection
    prefix, truth = (
        option.value
        for option in (
            ConnectionOptions.OPTION_SESSION_OPTION_PREFIX,
            ConnectionOptions.OPTION_BOOL_SESSION_OPTION_PREFIX,
        )
    )
    session.set_options(**{prefix + "max_calls": 5, prefix + "timeout": 60, prefix + "max_cost": 2.5})
    session.set_options(**{truth + "optimizer": "false", prefix + "ordering": "fixed", prefix + "max_tokens": "7"})
    assert session.get_option_int(prefix + "max_calls") == 5
    assert session.get_option_int(prefix + "timeout") == 60
    assert session.get_option_float(prefix + "max_cost") == 2.5
    assert session.get_option(truth + "optimizer") == "false"
    assert session.get_option(prefix + "ordering") == "fixed"
    assert session.get_option(prefix + "max_tokens") == "7"
    cursor.execute("SET flightllm.max_calls = none")
    assert session.get_option(prefix + "max_calls") == "none"


@pytest.mark.usefixtures("numbers")
def test_cancel_before_the_first_batch(cursor: Any, database: Database) -> None:
    """A query that computes without giving rows is stopped by the client."""

    def cancel() -> None:
        await_true(lambda: any(record.row()["calls"] for record in database.queries.running()))
        cursor.adbc_cancel()

    threading.Thread(target=cancel).start()
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
def test_two_connections(server: FlightSqlServer, database: Database) -> None:
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
        await_true(lambda: any(record.row()["calls"] for record in database.queries.running()))
        for _ in range(5):
            quick.execute("SELECT 1")
            assert quick.fetchone() == (1,)
        slow.adbc_cancel()
        thread.join(60)
        assert len(failures) == 1


def _run(cursor: Any, sql: str, failures: list[Exception]) -> None:
    try:
        cursor.execute(sql).fetchall()
    except adbc.Error as exc:
        failures.append(exc)


def _ended(database: Database) -> bool:
    """Wait until no query runs any more."""
    await_true(lambda: not database.queries.running())
    return True
