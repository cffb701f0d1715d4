"""The server: TLS, many connections, clients that vanish, and its end."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trustme
from psycopg import generators

from flightllm.access.store import User
from flightllm.config import Config, EngineConfig, PostgresConfig, ServerConfig
from flightllm.errors import ConfigError
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.front import Front
from flightllm.postgres.server import PostgresServer
from flightllm.postgres.tags import tag_of
from flightllm.session.database import Database
from flightllm.sql.tokens import tokenize
from tests.postgres.support import PASSWORD, SECONDS, Place
from tests.servers import await_true


@pytest.fixture
def encrypted(guarded: Database, tmp_path: Path) -> Iterator[tuple[Place, Path]]:
    """Serve with a certificate; return also the authority's file."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    config = ServerConfig("127.0.0.1:0", tls_certificate=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    flight = FlightSqlServer(guarded, config, login=guarded.access.login)
    with PostgresServer(PostgresConfig("127.0.0.1:0"), flight.core, config) as server:
        yield Place(server.port or 0), tmp_path / "ca.pem"
    flight.drain(0)


def test_tls(encrypted: tuple[Place, Path]) -> None:
    """A client checks the certificate, and binds its login to it."""
    place, authority = encrypted
    how = {"sslmode": "verify-full", "sslrootcert": str(authority), "channel_binding": "require"}
    with place.connect("ann", PASSWORD, **how) as connection:
        assert connection.execute("SELECT count(*) FROM open_t").fetchone() == (100,)
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SHOW ssl").fetchone() == ("on",)


@pytest.mark.parametrize("mode", ["disable", "require", "prefer", "allow"])
def test_other_machines_must_encrypt(encrypted: tuple[Place, Path], monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """With a certificate, only this machine's clients can send and read rows in clear text."""
    place, _ = encrypted
    with place.connect("ann", PASSWORD, sslmode="disable") as connection:
        assert not connection.pgconn.ssl_in_use
    monkeypatch.setattr(Front, "is_local", staticmethod(lambda _host: False))
    if mode == "disable":
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            place.connect("ann", PASSWORD, sslmode=mode)
        return
    with place.connect("ann", PASSWORD, sslmode=mode) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT count(*) FROM open_t").fetchone() == (100,)


def test_exposure(guarded: Database) -> None:
    """Without TLS, other machines cannot reach it."""
    flight = FlightSqlServer(guarded, ServerConfig("127.0.0.1:0"), login=guarded.access.login)
    with pytest.raises(ConfigError, match=r"\[postgres\] listen"):
        PostgresServer(PostgresConfig("0.0.0.0:0"), flight.core)
    flight.drain(0)


def test_old_password(guarded: Database, door: Place) -> None:
    """A password without a verifier is asked for in plain text on this machine, once; then SCRAM works."""
    store = guarded.access.store
    store.add_user(User("old", "user"), PASSWORD)
    with store._changing() as database:
        database.execute("DELETE FROM secrets WHERE name = 'scram old'")
    with pytest.raises(psycopg.OperationalError):
        door.connect("old", PASSWORD, require_auth="scram-sha-256")
    door.connect("old", PASSWORD, require_auth="password").close()
    door.connect("old", PASSWORD, require_auth="scram-sha-256").close()


def test_a_client_that_vanishes(place: Place, database: Database) -> None:
    """Its statement is cancelled, and its session is closed."""
    startup = struct.pack("!i", 196608) + b"user\0gone\0\0"
    link = socket.create_connection(("127.0.0.1", place.port), timeout=SECONDS)
    text = b"SELECT ai_gen('Of {a}?', a) FROM t\0"
    link.sendall(struct.pack("!i", len(startup) + 4) + startup + b"Q" + struct.pack("!i", len(text) + 4) + text)
    await_true(lambda: bool(database.queries.running()))
    link.close()
    await_true(lambda: not database.queries.running())


def test_bounds(tmp_path: Path) -> None:
    """Connections beyond the most get an error, those that do not log in are closed, and the end tells clients."""
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path))
    flight = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    server = PostgresServer(PostgresConfig("127.0.0.1:0", connections=2, login_seconds=0.3), flight.core)
    place = Place(server.port or 0)
    first, second = place.connect(), place.connect()
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        place.connect()
    second.close()
    with socket.create_connection(("127.0.0.1", place.port), timeout=SECONDS) as link:
        assert link.recv(1) == b""
    kept = server.pause()
    with pytest.raises(psycopg.OperationalError) as ended:
        first.execute("SELECT 1")
    assert ended.value.sqlstate == "57P01"
    server.resume(kept)
    assert place.rows("SELECT 1") == [(1,)]
    server.close()
    flight.drain(0)
    database.close()


async def _crowd(place: Place, clients: int, seconds: float) -> int:
    """Let many clients query until the time is over; return the number of statements."""
    end = time.monotonic() + seconds

    async def one(number: int) -> int:
        done = 0
        async with await psycopg.AsyncConnection.connect(place.dsn(), autocommit=True) as connection:
            while done < 2 or time.monotonic() < end:
                cursor = await connection.execute("SELECT %s::bigint + a FROM t WHERE a = 5", (number,))
                assert await cursor.fetchall() == [(number + 5,)]
                done += 1
        return done

    return sum(await asyncio.gather(*map(one, range(clients))))


def test_some_connections(place: Place) -> None:
    """Several clients at once get their own rows."""
    assert asyncio.run(_crowd(place, 10, 0)) >= 20


@pytest.mark.slow
def test_many_connections(place: Place) -> None:
    """200 clients at once for 30 seconds: each gets its own rows at least twice, without an error."""
    assert asyncio.run(_crowd(place, 200, 30)) >= 400


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("CREATE OR REPLACE ROW FILTER ON t TO a AS b", "CREATE ROW FILTER"),
        ("DROP COLUMN MASK ON t.b FROM a", "DROP COLUMN MASK"),
        ("CREATE TEMP TABLE x (a int)", "CREATE TABLE"),
        ("CREATE TABLE row (filter int)", "CREATE TABLE"),
    ],
)
def test_tags(sql: str, tag: str) -> None:
    """A command tag is the statement's name."""
    assert tag_of(tokenize(sql))(-1) == tag


def test_shown_timeout(place: Place) -> None:
    """SHOW writes a time with its unit, as PostgreSQL does."""
    with place.connect() as connection:
        for given, shown in (("5000", "5s"), ("'1500ms'", "1500ms"), ("'2min'", "2min"), ("0", "0")):
            connection.execute(f"SET statement_timeout = {given}")
            assert connection.execute("SHOW statement_timeout").fetchone() == (shown,)
        connection.execute("CREATE OR REPLACE TABLE copied (a int, b int)")
        with pytest.raises(psycopg.Error) as raised, connection.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write("1\n")
        assert "CSV" not in str(raised.value)


def test_without_certificate(place: Place) -> None:
    """A server without a certificate tells that it has no TLS."""
    with place.connect() as connection:
        assert connection.execute("SHOW ssl").fetchone() == ("off",)
        assert connection.execute("SELECT setting FROM pg_settings WHERE name = 'ssl'").fetchone() == ("off",)


def test_early_close(flight: FlightSqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is closed before its thread runs ends."""
    run, begin = PostgresServer._run, threading.Event()

    def late(server: PostgresServer) -> None:
        begin.wait(SECONDS)
        run(server)

    monkeypatch.setattr(PostgresServer, "_run", late)
    monkeypatch.setattr("flightllm.postgres.server._STOP_SECONDS", 0.01)
    server = PostgresServer(PostgresConfig("127.0.0.1:0"), flight.core)
    thread = server._thread
    server.close()
    begin.set()
    assert thread is not None
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_interval_style(place: Place) -> None:
    """Rails sets the style of intervals when it connects; it holds for rows and for COPY until it is reset."""
    with place.connect() as connection:
        connection.execute("SET intervalstyle = 'iso_8601'")
        assert connection.info.parameter_status("IntervalStyle") == "iso_8601"
        cursor = psycopg.Cursor(connection)
        result = cursor.connection.pgconn.exec_(b"SELECT interval '1 day 2 hours'")
        assert result.get_value(0, 0) == b"P1DT2H"
        with cursor.copy("COPY (SELECT interval '-1 second') TO STDOUT") as copy:
            assert b"".join(copy) == b"PT-1S\n"
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="set postgres or iso_8601"):
            connection.execute("SET intervalstyle = 'sql_standard'")
        connection.execute("RESET intervalstyle")
        assert connection.execute("SHOW intervalstyle").fetchone() == ("postgres",)


@pytest.mark.parametrize(
    "text", ["ANALYZE", "VACUUM", "ANALYZE VERBOSE kept", "VACUUM (ANALYZE, VERBOSE) kept (a), public.kept;"]
)
def test_maintenance(place: Place, text: str) -> None:
    """ANALYZE and VACUUM do nothing, because the server does it by itself; a wrong name is still an error."""
    with place.connect() as connection:
        connection.execute("CREATE OR REPLACE TABLE kept (a int)")
        assert connection.execute(text.encode()).statusmessage == text.split(maxsplit=1)[0]
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("ANALYZE kept, absent")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("VACUUM kept (absent)")


def test_names(place: Place) -> None:
    """Columns without an alias have PostgreSQL's names, and two columns can have one name."""
    with place.connect() as connection:
        cursor = connection.execute("SELECT count(*), count(a), max(a) + 1, a::text FROM (SELECT 1 AS a) GROUP BY a")
        assert [column.name for column in cursor.description or ()] == ["count", "count", "?column?", "a"]
        described = connection.pgconn.prepare(b"s", b"SELECT upper('x'), 1")
        assert described.status == psycopg.pq.ExecStatus.COMMAND_OK
        connection.pgconn.send_describe_prepared(b"s")  # `describe_prepared` holds the interpreter, and so the server
        (columns,) = connection.wait(generators.execute(connection.pgconn))
        assert [columns.fname(index) for index in range(2)] == [b"upper", b"?column?"]


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT nope FROM t", 8),
        ("SELECT 1;\n SELECT a,\n  t.nope FROM t", 24),
        ("SELECT nope, nope FROM t", None),
        ("SELECT 'ü', nope FROM t", 13),
        ("  SELECT a,\n nope FROM t", 14),
        ("SELECT 1; DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT nope FROM t", 59),
        ("PREPARE p AS SELECT a, nope FROM t", 24),
        ('SELECT a, "no.pe" FROM t', 11),
        ('SELECT t."No""pe" FROM t', 8),
    ],
)
def test_positions(place: Place, sql: str, position: int | None) -> None:
    """The error of a column that no table has tells where the column stands, if it stands there once."""
    with place.connect() as connection, pytest.raises(psycopg.errors.UndefinedColumn) as failed:
        connection.execute(sql)
    found = failed.value.diag.statement_position
    assert (None if found is None else int(found)) == position


@pytest.mark.parametrize(
    "sql",
    [
        "  SELECT a,\n nope FROM t WHERE a = $1::int",
        "SELECT a\nFROM t WHERE a = $1::int AND",
        "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT a\nFROM t WHERE",
        "PREPARE p AS\n SELECT a,, FROM t",
    ],
)
def test_positions_of_messages(place: Place, reference: "psycopg.Connection[Any]", sql: str) -> None:
    """An error has the place of PostgreSQL's, in messages of both kinds."""
    places = list[int]()
    values = (b"1",) if "$1" in sql else ()
    reference.execute("CREATE TABLE IF NOT EXISTS t (a int)")
    with place.connect() as connection:
        for one in (connection, reference):
            found = one.pgconn.exec_params(sql.encode(), values)
            shown = found.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION)
            assert shown is not None, found.error_message
            places.append(int(shown))
        if not values:
            simple = connection.pgconn.exec_(sql.encode())
            assert simple.error_field(psycopg.pq.DiagnosticField.STATEMENT_POSITION) == str(places[0]).encode()
    assert places[0] == places[1]


def test_number_of_a_connection(place: Place) -> None:
    """The number in the key is that of pg_backend_pid() and pg_stat_activity, and both ways of cancelling know it."""
    pytest.importorskip("duckdb", reason="the extra 'postgres' is not installed")
    with place.connect() as one, place.connect() as other:
        numbers = [connection.info.backend_pid for connection in (one, other)]
        assert one.execute("SELECT pg_backend_pid()").fetchone() == (numbers[0],)
        shown = other.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s::int[])", [numbers]).fetchall()
        assert {pid for (pid,) in shown} == set(numbers)
        timer = threading.Timer(0.5, other.execute, ("SELECT pg_cancel_backend(%s::int)", [numbers[0]]))
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            one.execute("SELECT ai_classify(b || a, ['x', 'y']) FROM t").fetchall()
        timer.join(SECONDS)
        assert one.execute("SELECT 1").fetchone() == (1,)
