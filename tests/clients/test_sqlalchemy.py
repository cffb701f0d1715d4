"""The package flightsql-dbapi: its DB-API, and SQLAlchemy on top of it."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.database import Database
from flightllm.flight.server import FlightSqlServer

with warnings.catch_warnings():  # the package is older than its dependencies
    warnings.simplefilter("ignore")
    import flightsql
    import flightsql.sqlalchemy
    import sqlalchemy

FEATURES = "&feature-sqlalchemy-prepared-statements=on&feature-sqlalchemy-primary-keys=on"


@pytest.fixture
def client(server: FlightSqlServer, database: Database) -> Iterator[Any]:
    """Connect the package's own client to a server with one table."""
    database.session().update("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(n, x)")
    client = flightsql.FlightSQLClient(host="127.0.0.1", port=server.port, user="u", password="p", insecure=True)
    yield client
    client.close()


@pytest.fixture
def engine(client: Any, server: FlightSqlServer) -> Iterator[Any]:
    """Make an SQLAlchemy engine."""
    del client
    url = f"datafusion+flightsql://u:p@127.0.0.1:{server.port}?insecure=True{FEATURES}"
    engine = sqlalchemy.create_engine(url)
    yield engine
    engine.dispose()


def test_dbapi(client: Any) -> None:
    """Queries, parameters (sent as a union of types), updates and metadata."""
    connection = flightsql.connect(client)
    cursor = connection.cursor()
    assert cursor.execute("SELECT n, x FROM t ORDER BY n").fetchall()[0] == [1, "a"]
    assert cursor.execute("SELECT ? + 1, ?, ?, ?", [1, "x", 1.5, True]).fetchall() == [[2, "x", 1.5, True]]
    assert client.execute_update("INSERT INTO t VALUES (3, 'c')") == 1
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == [3]
    assert connection.flightsql_get_sql_info([0, 504]) == {0: "FlightLLM", 504: '"'}
    assert connection.flightsql_get_table_names("public") == ["t"]
    assert connection.flightsql_get_primary_keys("t") == []
    with pytest.raises(Exception, match="No field named nope"):
        cursor.execute("SELECT nope FROM t")


def test_sqlalchemy(engine: Any) -> None:
    """An engine selects with parameters, reflects a table, and calls the model."""
    text, metadata = sqlalchemy.text, sqlalchemy.MetaData()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT n FROM t WHERE n > :least"), {"least": 1}).fetchall() == [(2,)]
        table = sqlalchemy.Table("t", metadata, autoload_with=engine, schema="public")
        query = sqlalchemy.select(table.c.x).where(table.c.n == 1)
        assert connection.execute(query).fetchall() == [("a",)]
        answers = connection.execute(text("SELECT ai_gen('Say {x}', x) FROM t WHERE n = 1")).fetchall()
        assert len(answers[0][0]) > 0
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_schema_names() == ["public", "system"]
    assert [(c["name"], str(c["type"])) for c in inspector.get_columns("t", "public")] == [
        ("n", "BIGINT"),
        ("x", "TEXT"),
    ]
