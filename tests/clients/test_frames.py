"""pandas and polars over ADBC."""

import adbc_driver_flightsql.dbapi as adbc
import pandas as pd
import polars as pl
import pytest

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


def test_polars_writes_a_table(server: FlightSqlServer) -> None:
    """`write_database` makes, adds to and replaces a table, also in another schema."""
    frame = pl.DataFrame({"n": [1, 2], "s": ["a", None]})
    with adbc.connect(server.uri, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA sales")
        for name in ("written", "sales.written"):
            for mode, rows in (("fail", 2), ("append", 4), ("replace", 2)):
                frame.write_database(name, connection, engine="adbc", if_table_exists=mode)  # type: ignore[arg-type]
                assert len(pl.read_database(f"SELECT * FROM {name}", connection)) == rows
            with pytest.raises(adbc.ProgrammingError, match="exists"):
                frame.write_database(name, connection, engine="adbc")


def test_pandas_keeps_types(server: FlightSqlServer) -> None:
    """`read_sql` may keep Arrow's types, and a time zone goes there and back."""
    with adbc.connect(server.uri, autocommit=True) as connection:
        frame = pd.read_sql("SELECT 7 AS n, DATE '2024-01-02' AS d", connection, dtype_backend="pyarrow")
        assert [str(kind) for kind in frame.dtypes] == ["int64[pyarrow]", "date32[day][pyarrow]"]
        more = pd.DataFrame({"n": [1], "at": [pd.Timestamp("2024-01-02 03:04:05", tz="UTC")]})
        assert more.to_sql("moments", connection, index=False) == 1
        assert more.to_sql("moments", connection, index=False, if_exists="append") == 1
        with pytest.raises(ValueError, match="exists"):
            more.to_sql("moments", connection, index=False)
        assert pd.read_sql("SELECT at FROM moments", connection)["at"].dt.tz is not None


def test_polars_writes(server: FlightSqlServer) -> None:
    """A frame's string views arrive as plain text."""
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("uploaded", pl.DataFrame({"s": ["a", "b"], "c": ["x", "x"]}).to_arrow())
        assert pl.read_database("SELECT s FROM uploaded ORDER BY s", connection)["s"].to_list() == ["a", "b"]


def test_polars_writes_categories(server: FlightSqlServer) -> None:
    """Categories, which polars sends as dictionaries of string views, arrive as text."""
    data = {"c": ["x", None, "x"], "e": ["b", "a", None], "n": [1, 2, 3]}
    frame = pl.DataFrame(data, schema={"c": pl.Categorical, "e": pl.Enum(["a", "b"]), "n": pl.Int64})
    with adbc.connect(server.uri, autocommit=True) as connection:
        frame.write_database("categories", connection, engine="adbc")
        assert pl.read_database("SELECT * FROM categories ORDER BY n", connection).to_dict(as_series=False) == data
