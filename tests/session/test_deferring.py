"""Deferred statements as sessions and clients write them."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.config import PostgresConfig, ServerConfig
from flightllm.errors import InvalidInputError, UnsupportedError
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.server import PostgresServer
from tests.batch_endpoint import batch_provider
from tests.deferred.test_deferral import ROWS, deferred, ended, opened, rows_of

_CALL = "ai_gen('Say', x)"


def test_the_option_of_a_statement(tmp_path: Path) -> None:
    """`WITH (delivery = …)` chooses for one statement, whatever the session's setting is, and describes the same."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE TABLE made (id BIGINT, a TEXT)")
        sql = f"INSERT INTO made SELECT id, {_CALL} FROM t WITH (delivery = 'batch')"
        assert not session.is_update(sql)
        assert session.describe(sql).schema.names[:2] == ["id", "state"]
        [handle] = rows_of(session, sql)
        assert ended(database, handle["id"])["state"] == "done"
        assert rows_of(session, "SELECT count(a) AS n FROM made") == [{"n": ROWS}]
        [handle] = rows_of(session, f"CREATE TABLE more WITH (delivery = 'batch') AS SELECT {_CALL} AS a FROM t")
        assert ended(database, handle["id"])["rows"] == ROWS
        now = f"SELECT {_CALL} AS a FROM t WITH (delivery = 'immediate')"
        assert len(rows_of(session, now, delivery="batch")) == ROWS
        with pytest.raises(InvalidInputError, match="write 'immediate' or 'batch'"):
            rows_of(session, "SELECT 1 WITH (delivery = 'later')")
        assert set(provider.asked.values()) == {1}
        assert not provider.chats


def test_a_session_with_temporary_tables(tmp_path: Path) -> None:
    """Only a statement that reads a temporary table is refused."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE TEMPORARY TABLE own AS SELECT 'a' AS x")
        assert ended(database, deferred(session, f"SELECT {_CALL} AS a FROM t"))["state"] == "done"
        for source in ("own", "t WHERE x IN (SELECT x FROM own)", "(SELECT * FROM own) AS s"):
            with pytest.raises(UnsupportedError, match="no temporary tables: store their rows"):
                deferred(session, f"SELECT {_CALL} AS a FROM {source}")


def test_a_transaction(tmp_path: Path) -> None:
    """A client without autocommit defers statements; ROLLBACK says that it does not undo them."""
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        begun = session.begin()
        batch_id = deferred(session, f"SELECT {_CALL} AS a FROM t")
        with pytest.raises(UnsupportedError, match="ROLLBACK undid nothing"):
            session.end(begun, commit=False)
        session.update("BEGIN")
        session.update(f"CREATE TABLE made AS SELECT {_CALL} AS a FROM t", settings={"delivery": "batch"})
        with pytest.raises(UnsupportedError, match="ROLLBACK undid nothing"):
            session.update("ROLLBACK")
        assert ended(database, batch_id)["state"] == "done"


def test_the_id_of_a_result_is_a_parameter(tmp_path: Path) -> None:
    """A bound id gives the rows; without a value the statement has no columns, and the error says so."""
    sql = "SELECT id FROM batch_result($1) ORDER BY id LIMIT 2"
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        batch_id = deferred(session, f"SELECT id, {_CALL} AS a FROM t")
        ended(database, batch_id)
        row = pa.RecordBatch.from_pylist([{"1": batch_id}])
        assert session.describe(sql, row).schema.names == ["id"]
        assert session.execute(sql, row).batches is not None
        with pytest.raises(InvalidInputError, match="known once its id is"):
            session.describe(sql)


def test_parameters_of_a_change(tmp_path: Path) -> None:
    """A change keeps its values, however a client sends it; a prepared change returns its handle."""
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="the extra 'test' is not installed")
    sql = f"INSERT INTO made SELECT id, {_CALL} FROM t WHERE id <= ? WITH (delivery = 'batch')"
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        session = database.session()
        session.update("CREATE TABLE made (id BIGINT, a TEXT)")
        session.update(sql, pa.table({"0": [1, 2]}))  # a statement for each row
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        try:
            with dbapi.connect(server.uri, autocommit=True) as client, client.cursor() as cursor:
                cursor.execute(sql, (3,))
                [[_, state, *_]] = cursor.fetchall()
                assert state == "collecting"
                cursor.execute(sql.replace("?", "2"))
                assert len(cursor.fetchall()) == 1
        finally:
            server.drain(0)
        ids = [str(row["id"]) for row in rows_of(session, "SELECT id FROM system.batches ORDER BY created")]
        assert [ended(database, one)["rows"] for one in ids] == [1, 2, 3, 2]
        assert rows_of(session, "SELECT count(a) AS n FROM made") == [{"n": 8}]
        assert set(provider.asked.values()) == {1}


@pytest.mark.slow
def test_postgres_clients(tmp_path: Path) -> None:
    """A client defers in its transaction, and binds the id of a result."""
    psycopg = pytest.importorskip("psycopg", reason="the extra 'test' is not installed")
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        try:
            with PostgresServer(PostgresConfig("127.0.0.1:0"), server.core) as postgres:
                where = f"host=127.0.0.1 port={postgres.port} user=local dbname=flightllm"
                with psycopg.connect(where) as client:
                    sql = f"SELECT id, {_CALL} AS a FROM t WITH (delivery = 'batch')"
                    [batch_id, *_] = client.execute(sql).fetchone() or [""]
                    client.commit()
                    assert ended(database, batch_id)["state"] == "done"
                    found = client.execute("SELECT id, a FROM batch_result(%s) ORDER BY id", [batch_id]).fetchall()
                    assert [row[0] for row in found] == list(range(1, ROWS + 1))
                    client.commit()
                    with pytest.raises(psycopg.Error, match="there is no deferred statement"):
                        client.execute("SELECT * FROM batch_result(%s)", ["nothing"])
        finally:
            server.drain(0)


def test_adbc_without_autocommit(tmp_path: Path) -> None:
    """ADBC's connections, which begin a transaction by themselves, defer a statement."""
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="the extra 'test' is not installed")
    with batch_provider() as provider, opened(tmp_path, provider) as database:
        server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
        try:
            with dbapi.connect(server.uri) as client, client.cursor() as cursor:
                cursor.execute(f"SELECT id, {_CALL} AS a FROM t WITH (delivery = 'batch')")
                [[batch_id, *_]] = cursor.fetchall()
                client.commit()
                assert ended(database, batch_id)["state"] == "done"
        finally:
            server.drain(0)
