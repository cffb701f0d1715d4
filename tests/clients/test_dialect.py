"""Sessions' schemas, temporary tables, keys and transactions, as ADBC, pandas and polars use them."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode

from tests.servers import ServerProcess

SCHEMA = "adbc.connection.db_schema"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Start a server process."""
    started = ServerProcess(tmp_path_factory.mktemp("server"), 3, 1)
    with started, started.connect() as connection, connection.cursor() as cursor:
        for statement in ("CREATE SCHEMA s", "CREATE TABLE s.t (a INT)", "INSERT INTO s.t VALUES (7)"):
            cursor.execute(statement)
        yield started


def _rows(cursor: Any, sql: str) -> list[Any]:
    cursor.execute(sql)
    return list(cursor.fetchall())


def test_adbc_connects_without_a_warning(process: ServerProcess) -> None:
    """DB-API's commit works, and rollback where nothing was changed; otherwise it says that nothing was undone."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection = adbc.connect(process.uri)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept (a INT)")
        connection.commit()
        assert _rows(cursor, "SELECT count(*) FROM kept") == [(0,)]
        connection.rollback()
        cursor.execute("INSERT INTO kept VALUES (1)")
        with pytest.raises(adbc.Error, match="ROLLBACK undid nothing: the statement since BEGIN took effect"):
            connection.rollback()
    assert process.query("SELECT count(*) FROM kept") == [(1,)]


def test_the_schema_of_an_adbc_connection(process: ServerProcess) -> None:
    """It is an option, which USE changes too; unqualified names are of it, an upload's table as well."""
    with process.connect() as connection, connection.cursor() as cursor:
        low = connection.adbc_connection
        assert (low.get_option("adbc.connection.catalog"), low.get_option(SCHEMA)) == ("flightllm", "public")
        low.set_options(**{SCHEMA: "s"})
        assert _rows(cursor, "SELECT a, current_schema() FROM t") == [(7, "s")]
        cursor.adbc_ingest("uploaded", pa.table({"x": [1, 2]}))
        cursor.adbc_ingest("uploaded", pa.table({"x": [3]}), mode="append")
        assert _rows(cursor, "SELECT count(*) FROM s.uploaded") == [(3,)]
        cursor.execute("USE flightllm.public")
        assert low.get_option(SCHEMA) == "public"
        assert _rows(cursor, "SELECT count(*) FROM t") == [(3,)]
        for name, value in ((SCHEMA, "nope"), ("adbc.connection.catalog", "nope")):
            with pytest.raises(adbc.Error, match=r"there is no (schema|catalog) 'nope'") as refused:
                low.set_options(**{name: value})
            assert refused.value.status_code == AdbcStatusCode.NOT_FOUND
        assert _rows(cursor, "SELECT current_schema()") == [("public",)]


def test_temporary_uploads(process: ServerProcess) -> None:
    """An upload with temporary=True is the session's alone, shadows a table, and goes with the session."""
    with process.connect() as connection, connection.cursor() as cursor, process.connect() as other:
        cursor.adbc_ingest("t", pa.table({"n": [100]}), temporary=True)
        cursor.adbc_ingest("t", pa.table({"n": [200]}), mode="append", temporary=True)
        assert _rows(cursor, "SELECT n FROM t ORDER BY n") == [(100,), (200,)]
        tables = connection.adbc_get_objects(depth="tables", table_name_filter="t").read_all().to_pylist()
        schemas = {s["db_schema_name"]: s["db_schema_tables"] for s in tables[0]["catalog_db_schemas"]}
        assert [name for name, found in schemas.items() if found and name.startswith("pg_temp_")]
        with other.cursor() as second:
            assert _rows(second, "SELECT max(n) FROM t") == [(3,)]
            seen = _rows(second, "SELECT table_schema FROM information_schema.tables")
            assert not [name for (name,) in seen if name.startswith("pg_temp")]
            assert "pg_temp" not in str(other.adbc_get_objects(depth="all").read_all().to_pylist())
    assert process.query("SELECT max(n) FROM t") == [(3,)]


@pytest.mark.slow
def test_temporary_tables_end_with_the_server(tmp_path: Path) -> None:
    """A server that is killed leaves nothing of them: neither table nor file."""
    files = tmp_path / "tables" / "files"
    with ServerProcess(tmp_path, 3, 1) as server, server.connect() as connection:
        before = {*files.iterdir()}
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE gone AS SELECT n FROM t")
        (added,) = {*files.iterdir()} - before
        server.kill()
    with ServerProcess(tmp_path, 3, 1) as again:
        with pytest.raises(adbc.Error, match="gone"):
            again.query("SELECT * FROM gone")
        assert not added.exists()


def test_pandas_and_polars(process: ServerProcess) -> None:
    """Both write tables over a plain ADBC connection, in its schema, replace them and read them back."""
    with adbc.connect(process.uri) as connection:
        connection.adbc_connection.set_options(**{SCHEMA: "s"})
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
        assert frame.to_sql("from_pandas", connection, index=False) == 2
        frame.to_sql("from_pandas", connection, index=False, if_exists="replace")
        frame.to_sql("from_pandas", connection, index=False, if_exists="append")
        assert len(pd.read_sql("SELECT * FROM s.from_pandas", connection)) == 4
        made = pl.DataFrame({"a": [1.5]})
        assert made.write_database("from_polars", connection, engine="adbc") == 1
        made.write_database("from_polars", connection, engine="adbc", if_table_exists="append")
        assert pl.read_database("SELECT count(*) AS n FROM from_polars", connection)["n"].to_list() == [2]
