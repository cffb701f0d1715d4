"""Real clients of PostgreSQL: psql, psycopg, asyncpg, pg8000 and SQLAlchemy."""

import asyncio
import datetime as dt
import shutil
import subprocess
import threading
import uuid
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.postgres.support import PASSWORD, SECONDS, Place

_TYPES = (
    "SELECT 1, 2::smallint, 3::bigint, 1.5::double, 1.25::real, 10.50::decimal(10, 2), 'x', true, NULL,"
    " date '2024-01-02', timestamp '2024-01-02 03:04:05.6', interval '1 month 2 days', [1, 2, NULL], [['a'], ['b']],"
    " struct(1 AS a), x'6162', time '01:02:03',"
    " arrow_cast('2024-01-02T00:00:00Z', 'Timestamp(Nanosecond, Some(\"UTC\"))')"
)
_VALUES: tuple[Any, ...] = (
    *(1, 2, 3, 1.5, 1.25, Decimal("10.50"), "x", True, None, dt.date(2024, 1, 2)),
    *(
        dt.datetime.fromisoformat("2024-01-02 03:04:05.600"),
        dt.timedelta(days=32),
        [1, 2, None],
        [["a"], ["b"]],
        {"a": 1},
        b"ab",
    ),
    *(dt.time(1, 2, 3), dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
)


def psql(
    place: Place, *arguments: str, user: str = "me", password: str = "", script: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run psql without a terminal."""
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    command = [program, place.dsn(user, password), "-X", "-At", *arguments]
    return subprocess.run(command, input=script, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_psql(place: Place) -> None:
    """Several statements in one text, each with its result; an error ends the text, and psql shows its place."""
    done = psql(place, "-c", "SELECT 1, NULL, 'x'; CREATE OR REPLACE TABLE p (a int); INSERT INTO p VALUES (1), (2)")
    assert done.stdout.splitlines() == ["1||x", "CREATE TABLE", "INSERT 0 2"]
    assert psql(place, "-c", "SELECT version()").stdout.startswith("PostgreSQL 15.")
    failed = psql(place, "-c", "SELECT 1; SELEC 2; SELECT 3")
    assert failed.stdout == "1\n"
    assert "ERROR:" in failed.stderr
    script = "BEGIN;\nSELECT nope;\nSELECT 1;\nROLLBACK;\nSELECT 2;\n"
    script += "\\copy (SELECT 1 AS a) TO STDOUT WITH (FORMAT csv, HEADER)\n"
    told = psql(place, script=script)
    assert told.stdout.splitlines() == ["BEGIN", "ROLLBACK", "2", "a", "1"]
    assert "current transaction is aborted" in told.stderr


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types(place: Place, binary: bool) -> None:
    """Values of all types arrive in both formats, and go back as parameters."""
    with place.connect() as connection:
        cursor = connection.cursor(binary=binary)
        assert cursor.execute(_TYPES).fetchone() == _VALUES
        given = (
            5,
            "t",
            1.5,
            True,
            None,
            dt.date(2024, 1, 2),
            Decimal("1.50"),
            [1, 2],
            b"a\0",
            dt.timedelta(1, 5),
            dt.time(1),
        )
        marks = ", ".join([f"%{'b' if binary else 't'}"] * len(given))
        assert cursor.execute(f"SELECT {marks}", given).fetchone() == given


def test_changes(place: Place) -> None:
    """Changes tell their rows, RETURNING returns them, and executemany binds many rows."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE w (a int, b text)")
        cursor.executemany("INSERT INTO w VALUES (%s, %s)", [(number, str(number)) for number in range(5)])
        assert cursor.rowcount == 5
        assert cursor.execute("INSERT INTO w VALUES (%s, %s) RETURNING a, b", (9, "z")).fetchall() == [(9, "z")]
        assert cursor.execute("UPDATE w SET b = 'q' WHERE a > %s", (2,)).rowcount == 3
        assert cursor.execute("DELETE FROM w").statusmessage == "DELETE 6"


def test_errors(place: Place) -> None:
    """Errors have PostgreSQL's SQLSTATE; in a transaction they refuse what follows up to its end."""
    with psycopg.connect(place.dsn()) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT nope FROM t")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM nowhere")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_pipeline(place: Place) -> None:
    """Messages that are sent ahead are answered in order; an error skips to the next Sync."""
    with place.connect() as connection:
        with connection.pipeline():
            first, second = connection.execute("SELECT 1"), connection.execute("SELECT %s::text", ("x",))
        assert (first.fetchall(), second.fetchall()) == ([(1,)], [("x",)])

        def fails() -> None:
            with connection.pipeline():
                for text in ("SELECT 1", "SELECT bogus", "SELECT 3"):
                    connection.execute(text)

        with pytest.raises(psycopg.errors.UndefinedColumn):
            fails()
        assert connection.execute("SELECT 4").fetchone() == (4,)


def test_a_pipeline_that_stops(place: Place) -> None:
    """The statements before the failed one keep their effect, and a notice says so."""
    with place.connect() as connection:
        told: list[str | None] = []
        connection.add_notice_handler(lambda found: told.append(found.message_primary))
        connection.execute("CREATE OR REPLACE TABLE half (a int)")
        with pytest.raises(psycopg.Error), connection.cursor() as cursor:
            cursor.executemany("INSERT INTO half VALUES (%s::text::int)", [("1",), ("2",), ("x",), ("4",)])
        assert connection.execute("SELECT a FROM half ORDER BY a").fetchall() == [(1,), (2,)]
        assert told == ["the statements before the failed one have taken effect: each takes effect by itself"]
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT bogus")
        assert len(told) == 1


def test_cursors(place: Place) -> None:
    """A named cursor reads a result in parts, with values, and ends with its transaction."""
    with psycopg.connect(place.dsn()) as connection:
        with connection.cursor("some") as cursor:
            cursor.itersize = 1000
            cursor.execute("SELECT a FROM t WHERE a > %s ORDER BY a", (10,))
            assert [row[0] for row in cursor] == list(range(11, 10_001))
        connection.execute("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
        assert connection.execute("FETCH 2 FROM c").fetchall() == [(1,), (2,)]
        assert connection.execute("MOVE 3 IN c").statusmessage == "MOVE 3"
        assert connection.execute("FETCH NEXT FROM c").fetchall() == [(6,)]
        connection.commit()
        with pytest.raises(psycopg.errors.InvalidCursorName):
            connection.execute("FETCH 2 FROM c")


def test_copy_out(place: Place) -> None:
    """COPY sends text, CSV with quotes, and the binary form."""
    value = "CASE a WHEN 1 THEN 'x\ty' WHEN 2 THEN NULL ELSE 'q\"r,s' END"
    query = f"COPY (SELECT a, {value} FROM t WHERE a < 4 ORDER BY a) TO STDOUT"
    with place.connect() as connection, connection.cursor() as cursor:
        with cursor.copy(query) as copy:
            assert list(copy.rows()) == [("1", "x\ty"), ("2", None), ("3", 'q"r,s')]
        with cursor.copy(f"{query} (FORMAT binary)") as copy:
            copy.set_types(["int8", "text"])
            assert list(copy.rows()) == [(1, "x\ty"), (2, None), (3, 'q"r,s')]
        with cursor.copy(f"{query} CSV DELIMITER ';'") as copy:
            assert b"".join(copy) == b'1;x\ty\n2;\n3;"q""r,s"\n'


def test_cancel(place: Place) -> None:
    """A client cancels by its key: model calls stop, and the connection goes on."""
    with place.connect() as connection:
        timer = threading.Timer(0.5, connection.cancel_safe)  # `cancel` would hold the interpreter, and so the server
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="due to user request"):
            connection.execute("SELECT ai_gen('Of {a}?', a) FROM t").fetchall()
        timer.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_settings(place: Place) -> None:
    """What clients set and show at their start."""
    with place.connect(
        application_name="some tool", options="-c search_path=public -c extra_float_digits=3"
    ) as connection:
        for text in (
            *(
                "SET client_min_messages = 'warning'",
                "SET TIME ZONE 'UTC'",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
            ),
            *("SET statement_timeout = '30s'", "DEALLOCATE ALL", "RESET ALL", "UNLISTEN *", "SET datestyle TO ISO"),
        ):
            connection.execute(text)
        shown = {
            "standard_conforming_strings": "on", "transaction_isolation": "read committed",
            "application_name": "some tool", "extra_float_digits": "3", "statement_timeout": "0",
        }  # fmt: skip
        for name, value in shown.items():
            assert connection.execute(f"SHOW {name}").fetchone() == (value,)
        connection.execute("PREPARE p (int) AS SELECT $1 + 1 AS x")
        assert connection.execute("EXECUTE p (41)").fetchall() == [(42,)]
        connection.execute("SET flightllm.timeout = 5")
        connection.execute("DISCARD ALL")
        assert connection.execute("SHOW flightllm.timeout").fetchone() != ("flightllm.timeout", "5.0")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            connection.execute("EXECUTE p (41)")


def test_asyncpg(place: Place) -> None:
    """Asyncpg prepares each statement, binds in binary form, and reads cursors in parts."""
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        one = await asyncpg.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm", timeout=SECONDS)
        assert await one.fetch("SELECT a, b FROM t WHERE a < $1 AND b <> $2 ORDER BY a", 3, "x") == [
            (1, "text 1"),
            (2, "text 2"),
        ]
        assert await one.fetchval("SELECT $1::int + 1", 5) == 6
        assert await one.execute("CREATE OR REPLACE TABLE z (a int, b decimal(10, 2))") == "CREATE TABLE"
        await one.executemany("INSERT INTO z VALUES ($1, $2)", [(1, Decimal("1.50")), (2, None)])
        assert await one.fetch("SELECT * FROM z ORDER BY a") == [(1, Decimal("1.50")), (2, None)]
        async with one.transaction():
            assert len([row async for row in one.cursor("SELECT a FROM t")]) == 10_000
        await one.reset()
        await one.close()

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_asyncpg_reads_and_binds_arrays(place: Place) -> None:
    """Asyncpg looks up the types of arrays in the catalog, then binds and reads them in binary form."""
    asyncpg = pytest.importorskip("asyncpg")
    pytest.importorskip("duckdb", reason="the extra 'postgres' is not installed")
    day, decimals, key = dt.date(2024, 1, 2), [Decimal("1.50"), None], uuid.UUID(int=3)
    cases: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
        ("SELECT ARRAY[1, 2]", (), [1, 2]),
        ("SELECT ARRAY['a', NULL]", (), ["a", None]),
        ("SELECT [[1, 2], [3, 4]]", (), [[1, 2], [3, 4]]),
        ("SELECT [date '2024-01-02', NULL]", (), [day, None]),
        ("SELECT $1::int[]", ([1, None],), [1, None]),
        ("SELECT $1::text[]", (["a", "b c"],), ["a", "b c"]),
        ("SELECT $1::date[]", ([day],), [day]),
        ("SELECT $1::numeric(10, 2)[]", (decimals,), decimals),
        ("SELECT $1::uuid", (key,), str(key)),
        ("SELECT CAST($1 AS uuid)", (key,), str(key)),
        ("SELECT $1::uuid[]", ([key],), [str(key)]),
        ("SELECT struct(1 AS a)", (), '{"a": 1}'),
        ("SELECT count(*) FROM t WHERE a = ANY($1::int[])", ([1, 3],), 2),
        ("SELECT count(*) FROM t WHERE b = ANY($1::text[])", (["text 3"],), 1),
        ("SELECT count(*) FROM t WHERE a = ANY($1)", ([1, 3],), 2),
        ("SELECT count(*) FROM t WHERE b = ANY($1)", (["text 3"],), 1),
        ("SELECT typname::text FROM pg_type WHERE oid = ANY($1::oid[])", ([23],), "int4"),
        ("SELECT array_agg(oid) FROM pg_type WHERE oid = $1::oid", (23,), [23]),
    )

    async def talk() -> None:
        one = await asyncpg.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm", timeout=SECONDS)
        for sql, values, wanted in cases:
            assert await asyncio.wait_for(one.fetchval(sql, *values), SECONDS) == wanted, sql
        await one.close()

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_types_of_the_catalog(place: Place) -> None:
    """Columns of the catalog have PostgreSQL's types, by which psqlodbc and DBD::Pg read them."""
    pytest.importorskip("duckdb", reason="the extra 'postgres' is not installed")
    sql = (
        "SELECT i.indexrelid, i.indkey, c.relname, c.relkind, i.indclass FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'keyed_pkey'"
    )
    with place.connect() as connection:
        connection.execute("CREATE OR REPLACE TABLE keyed (a int, b int, PRIMARY KEY (a, b))")
        array = bytes.fromhex("00000001 00000000 00000015 00000002 00000001 00000002 0001 00000002 0002")
        for binary, vector in ((False, "1 2"), (True, array)):
            cursor = connection.cursor(binary=binary).execute(sql)
            assert [column.type_code for column in cursor.description or ()] == [26, 22, 19, 18, 30]
            row = cursor.fetchone()
            assert row is not None
            assert row[1:4] == (vector, "keyed_pkey", "i")
            assert row[0] == connection.execute("SELECT 'keyed_pkey'::regclass::oid").fetchall()[0][0]
        shown = [column.type_code for column in connection.execute("SELECT * FROM pg_index").description or ()]
        assert shown[:2] == [26, 26]
        assert 22 in shown


def test_foreign_keys_of_psql(place: Place) -> None:
    """The client psql asks for foreign keys only where a table has triggers, which check them in PostgreSQL."""
    pytest.importorskip("duckdb", reason="the extra 'postgres' is not installed")
    made = (
        "CREATE OR REPLACE TABLE above (a int PRIMARY KEY); CREATE OR REPLACE TABLE below (b int REFERENCES above(a))"
    )
    assert psql(place, "-c", made).returncode == 0
    shown = ("-P", "tuples_only=off", "-c")
    assert "FOREIGN KEY (b) REFERENCES above(a)" in psql(place, *shown, r"\d below").stdout
    assert 'TABLE "below" CONSTRAINT' in psql(place, *shown, r"\d above").stdout


def test_pg8000(place: Place) -> None:
    """pg8000 reads texts."""
    pg8000 = pytest.importorskip("pg8000.native")
    connection = pg8000.Connection("me", host="127.0.0.1", port=place.port, database="flightllm", timeout=SECONDS)
    assert connection.run("SELECT a, b FROM t WHERE a = :x", x=5) == [[5, "text 5"]]
    assert connection.run("SELECT 1.5::double, true, [1, 2]") == [[1.5, True, [1, 2]]]
    connection.close()


def test_sqlalchemy(place: Place) -> None:
    """SQLAlchemy's own dialect connects, and binds values."""
    alchemy = pytest.importorskip("sqlalchemy")
    address = f"postgresql+psycopg://me@127.0.0.1:{place.port}/flightllm"
    engine = alchemy.create_engine(address, use_native_hstore=False)
    with engine.connect() as connection:
        found = connection.execute(alchemy.text("SELECT a, b FROM t WHERE a = :x"), {"x": 3}).fetchall()
        assert found == [(3, "text 3")]
    engine.dispose()


def test_login(door: Place) -> None:
    """A password logs in by SCRAM; a wrong one, and an unknown user, get the same error."""
    with door.connect("ann", PASSWORD, require_auth="scram-sha-256") as connection:
        assert connection.execute("SELECT count(*) FROM open_t").fetchone() == (100,)
    said = set()
    for user in ("ann", "nobody"):
        with pytest.raises(psycopg.OperationalError) as failed:
            door.connect(user, "wrong", require_auth="scram-sha-256")
        said.add(str(failed.value).replace(f'"{user}"', ""))
    assert len(said) == 1
    assert "wrong user name or password" in said.pop()
