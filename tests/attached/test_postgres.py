"""A real PostgreSQL: types, conditions, schemas, cancelled scans, and a source that is gone or has changed."""

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flightllm.errors import CancelledError, SqlError
from flightllm.session.database import Database
from tests.databases import ask, open_database, rows
from tests.postgres import binaries, cluster
from tests.servers import await_true

pytest.importorskip("adbc_driver_postgresql")
pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL here")

TABLES = """
CREATE TYPE mood AS ENUM ('ok', 'sad');
CREATE DOMAIN small AS int CHECK (value < 10);
CREATE TABLE types (k int PRIMARY KEY, b bool, f float8, n numeric, q numeric(12, 3), t text, v varchar(9), y bytea,
    d date, s timestamp, z timestamptz, e time, u uuid, j jsonb, m mood, a int[], a2 text[][], r int4range,
    i interval, o small, p point, ip inet, c char(4));
INSERT INTO types VALUES (1, true, 'NaN', 1.23456789012345678901, 12.345, 'it''s', 'vc', '\\x00ff', '2024-01-02',
    '2024-01-02 03:04:05.678', '2024-01-02 03:04:05+02', '01:02:03', '00000000-0000-0000-0000-000000000001',
    '{"a": 1}', 'sad', '{1,null}', '{{a},{b}}', '[1,5)', '1 day 2 hours', 5, '(1,2)', '10.0.0.1', 'c');
INSERT INTO types (k, f, t) VALUES (2, 1, 'Zoe'), (3, '-Infinity', 'ann'), (4, NULL, NULL);
CREATE TABLE ends AS SELECT 1 AS ok, 'infinity'::date AS d, '-infinity'::timestamp AS s, 'NaN'::numeric(5, 2) AS q;
CREATE TABLE many AS SELECT g AS id, 'name ' || g AS name FROM generate_series(1, 30000) g;
CREATE VIEW slow AS SELECT 1 AS one, pg_sleep(300)::text AS s;
CREATE VIEW wrong AS SELECT id, ('secret ' || id)::int AS i FROM many;
CREATE SCHEMA app;
CREATE TABLE app."Order ""s" ("Key" int, "from" text);
INSERT INTO app."Order ""s" VALUES (7, 'x');
ANALYZE;
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """Run a PostgreSQL with the tables; return a connection and the address."""
    import psycopg

    with cluster() as server:
        address = f"host={server.folder} user={server.user} dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(TABLES)
            yield connection, address


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, postgres: Any) -> Iterator[Database]:
    """Return a database with the server attached as `crm`."""
    database = open_database(tmp_path_factory.mktemp("data"))
    database.session().update(f"ATTACH '{postgres[1]}' AS crm (TYPE postgres)")
    yield database
    database.close()


def test_types(database: Database) -> None:
    """A type without an equal here is text, and an array JSON; a numeric with a scale is exact."""
    (row,) = rows(database.session(), "SELECT * FROM crm.public.types WHERE k = 1")
    times = [row.pop(name).isoformat() for name in "dsze"]
    assert times == ["2024-01-02", "2024-01-02T03:04:05.678000", "2024-01-02T01:04:05+00:00", "01:02:03"]
    assert str(row.pop("f")) == "nan"
    assert row == {
        "k": 1,
        "b": True,
        "n": "1.23456789012345678901",
        "q": Decimal("12.345"),
        "t": "it's",
        "v": "vc",
        "y": b"\x00\xff",
        "u": "00000000-0000-0000-0000-000000000001",
        "j": '{"a": 1}',
        "m": "sad",
        "a": "[1,null]",
        "a2": '[["a"],["b"]]',
        "r": "[1,5)",
        "i": "1 day 02:00:00",
        "o": 5,
        "p": "(1,2)",
        "ip": "10.0.0.1/32",
        "c": "c",
    }


def test_conditions(database: Database) -> None:
    """Conditions, joins and AI calls give the rows that they give over a copy."""
    session = database.session()
    session.update("CREATE OR REPLACE TABLE copy AS SELECT * FROM crm.types")
    session.update("CREATE OR REPLACE TABLE keys AS SELECT * FROM (VALUES (1), (3), (9)) AS v(k)")
    for query in (
        "SELECT k FROM {} WHERE f > 0 ORDER BY k",
        "SELECT k FROM {} WHERE f <> 1 AND k < 4 ORDER BY k",
        "SELECT k FROM {} WHERE t > 'a' OR t IS NULL ORDER BY k",
        "SELECT k FROM {} WHERE t IN ('Zoe', 'ann', 'b', 'c') ORDER BY k",
        "SELECT k FROM {} WHERE t LIKE '%n%' ORDER BY k",
        "SELECT k FROM {} WHERE q = 12.345 AND z < TIMESTAMP '2025-01-01' AND d >= DATE '2024-01-02'",
        "SELECT t, count(*) AS n, max(k) AS k FROM {} GROUP BY t ORDER BY t",
        "SELECT k, m FROM {} x JOIN keys USING (k) ORDER BY k",
        "SELECT k FROM {} WHERE k NOT IN (SELECT k FROM keys) ORDER BY k",
        "SELECT k, ai_filter('Is it a name?', t) AS a FROM {} ORDER BY k",
        "SELECT k FROM {} WHERE k > 1 AND ai_filter('Is it a name?', t) ORDER BY k LIMIT 1",
    ):
        assert str(rows(session, query.format("crm.types"))) == str(rows(session, query.format("copy"))), query


def test_names(database: Database) -> None:
    """Names with capitals, quotes and keywords are found, and the sources' schemas are listed."""
    session = database.session()
    assert rows(session, 'SELECT "Key", o."from" FROM crm.app."Order ""s" AS o') == [{"Key": 7, "from": "x"}]
    listed = rows(session, "SELECT DISTINCT table_schema AS s FROM information_schema.tables ORDER BY 1")
    assert {"s": "crm.app"} in listed
    assert {"s": "crm.public"} in listed
    assert rows(session, 'SELECT count(*) AS n FROM "crm.public".many WHERE many.id <= 10') == [{"n": 10}]


def test_ends(database: Database) -> None:
    """Infinite times, and NaN in a numeric with a scale, are errors that name the column."""
    session = database.session()
    for column in "dsq":
        with pytest.raises(SqlError, match=f"the column '{column}' has the type .* at its source"):
            rows(session, f"SELECT {column} FROM crm.ends")
    assert rows(session, "SELECT ok FROM crm.ends") == [{"ok": 1}]


def test_an_error_shows_no_value(database: Database) -> None:
    """An error about a value of the source does not show the value."""
    with pytest.raises(SqlError, match="a value of one of its rows is not valid there") as raised:
        rows(database.session(), "SELECT * FROM crm.wrong")
    assert "secret" not in str(raised.value)


def test_a_cancelled_scan_ends_at_the_source(database: Database, postgres: Any) -> None:
    """Other queries run while a source is slow; cancel ends the source's query too."""
    session, raised = database.session(), list[BaseException]()

    def run() -> None:
        try:
            ask(session, "SELECT s FROM crm.slow")
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    def sleeps() -> int:
        active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'"
        return int(postgres[0].execute(active).fetchone()[0])

    thread = threading.Thread(target=run)
    thread.start()
    await_true(lambda: sleeps() == 1)
    assert rows(database.session(), "SELECT count(*) AS n FROM crm.many") == [{"n": 30_000}]
    for record in database.queries.running():
        record.cancel()
    thread.join()
    assert isinstance(raised[0], CancelledError)
    await_true(lambda: sleeps() == 0)


def test_few_rows_of_a_large_table(database: Database, postgres: Any) -> None:
    """LIMIT ends the scan at the source."""
    assert len(rows(database.session(), "SELECT * FROM crm.many LIMIT 3")) == 3
    mine = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    await_true(lambda: int(postgres[0].execute(f"{mine} AND state <> 'idle'").fetchone()[0]) == 0)


def test_connections_are_used_again(database: Database, postgres: Any) -> None:
    """Scans one after the other share a connection; a connection that the source ended is replaced."""
    others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    query = "SELECT count(*) AS n FROM crm.many WHERE id < 9"
    database.catalog.store.attached.all["crm"].source().close()
    await_true(lambda: int(postgres[0].execute(f"SELECT count(*) {others}").fetchone()[0]) == 0)
    for _ in range(3):
        assert rows(database.session(), query) == [{"n": 8}]
    assert postgres[0].execute(f"SELECT count(*) {others}").fetchone() == (1,)
    postgres[0].execute(f"SELECT pg_terminate_backend(pid) {others}")
    assert rows(database.session(), query) == [{"n": 8}]


def test_nothing_is_written(database: Database, postgres: Any) -> None:
    """The server's transactions at the source are read-only, so that no view can change it."""
    postgres[0].execute("CREATE TABLE log (a int)")
    postgres[0].execute(
        "CREATE FUNCTION noted() RETURNS int LANGUAGE sql AS 'INSERT INTO log VALUES (1) RETURNING a';"
        "CREATE VIEW writes AS SELECT noted() AS a"
    )
    session = database.session()
    session.update("REFRESH DATABASE crm")
    with pytest.raises(SqlError, match="read-only transaction"):
        rows(session, "SELECT * FROM crm.writes")
    assert postgres[0].execute("SELECT count(*) FROM log").fetchone() == (0,)


def test_a_changed_table(database: Database, postgres: Any) -> None:
    """A column that is gone is told with what to write; REFRESH reads the tables again."""
    postgres[0].execute("CREATE TABLE moving (a int, b int); INSERT INTO moving VALUES (1, 2)")
    session = database.session()
    session.update("REFRESH DATABASE crm")
    assert rows(session, "SELECT b FROM crm.moving") == [{"b": 2}]
    postgres[0].execute("ALTER TABLE moving RENAME b TO c")
    with pytest.raises(SqlError, match="does not exist; if its tables have changed, write REFRESH DATABASE crm"):
        rows(session, "SELECT b FROM crm.moving")
    session.update("REFRESH DATABASE crm")
    assert rows(session, "SELECT * FROM crm.moving") == [{"a": 1, "c": 2}]


def test_a_source_that_is_gone(tmp_path: Path) -> None:
    """A server that does not answer is told, without the password."""
    session = open_database(tmp_path).session()
    for address in (
        "postgresql://me:pa55word-x@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 user=me password=pa55word-x",
        "postgresql://127.0.0.1:1/db?user=me&password=pa55word-x",
    ):
        with pytest.raises(SqlError, match=r"the attached database 'gone' failed: .*Connection refused") as raised:
            session.update(f"ATTACH '{address}' AS gone (TYPE postgres)")
        assert "pa55word" not in str(raised.value)
    assert "pa55word" not in str(rows(session, "SELECT * FROM system.queries"))
