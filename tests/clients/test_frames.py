"""pandas and polars over ADBC."""

import adbc_driver_flightsql.dbapi as adbc
import pandas as pd
import polars as pl

from flightllm.flight.server import FlightSqlServer

SQL = "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t(n, s) ORDER BY n"


def test_pandas_reads(server: FlightSqlServer) -> None:
    """`read_sql` gives a frame."""
    with adbc.connect(server.uri, autocommit=True) as connection:
        frame = pd.read_sql(SQL, connection)
    assert frame["n"].tolist() == [1, 2]
    assert frame["s"].isna().tolist() == [False, True]


def test_pandas_writes(server: FlightSqlServer) -> None:
    """`to_sql` uploads a frame."""
    with adbc.connect(server.uri, autocommit=True) as connection:
        pd.DataFrame({"n": [1, 2], "s": ["a", "b"]}).to_sql("uploaded", connection, index=False, if_exists="replace")
        assert len(pd.read_sql("SELECT * FROM uploaded", connection)) == 2


def test_polars_reads(server: FlightSqlServer) -> None:
    """`read_database` gives a frame."""
    with adbc.connect(server.uri, autocommit=True) as connection:
        frame = pl.read_database(SQL, connection)
    assert frame.rows() == [(1, "a"), (2, None)]


def test_polars_writes(server: FlightSqlServer) -> None:
    """A frame's string views arrive as plain text."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("uploaded", pl.DataFrame({"s": ["a", "b"], "c": ["x", "x"]}).to_arrow())
        assert pl.read_database("SELECT s FROM uploaded ORDER BY s", connection)["s"].to_list() == ["a", "b"]
