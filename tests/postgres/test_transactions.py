"""Read-only transactions, and settings that end with their transaction, as in PostgreSQL."""

import asyncio
from typing import Any

import psycopg
import pytest

from tests.postgres.support import SECONDS, Place

_CHANGES = (
    "INSERT INTO kept VALUES (1)",
    "DELETE FROM kept",
    "CREATE TABLE made AS SELECT 1 AS a",
    "DROP TABLE kept",
    "COPY kept FROM STDIN",
    "EXECUTE change",
)

_ENDING = ("application_name", "statement_timeout", "search_path", "default_transaction_read_only")


@pytest.fixture
def both(place: Place, reference: "psycopg.Connection[Any]") -> Any:
    """Connect to this server and to PostgreSQL, with the same table."""
    with place.connect() as connection:
        for one in (connection, reference):
            one.execute("DROP TABLE IF EXISTS kept")
            one.execute("CREATE TABLE kept (a int)")
        yield connection, reference


def _outcome(connection: "psycopg.Connection[Any]", text: str) -> Any:
    try:
        found = connection.execute(text.encode())
        return found.fetchall() if found.description else found.statusmessage
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


@pytest.mark.parametrize(
    "begin",
    [
        ("BEGIN READ ONLY",),
        ("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY NOT DEFERRABLE",),
        ("BEGIN", "SET TRANSACTION READ ONLY"),
        ("BEGIN", "SET transaction_read_only = on"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "BEGIN"),
        ("SET default_transaction_read_only = on", "SELECT 1"),
        ("BEGIN READ ONLY", "SELECT a FROM kept", "SET TRANSACTION READ WRITE", "ROLLBACK", "BEGIN READ ONLY"),
        ("BEGIN READ ONLY", "SET TRANSACTION READ WRITE", "COMMIT", "BEGIN READ ONLY"),
        ("BEGIN READ MAYBE", "ROLLBACK", "BEGIN READ ONLY"),
    ],
)
def test_read_only(both: Any, begin: tuple[str, ...]) -> None:
    """A read-only transaction refuses changes, and reads."""
    for change in _CHANGES:
        found = list[Any]()
        for connection in both:
            connection.execute("PREPARE change AS INSERT INTO kept VALUES (3)")
            steps = [_outcome(connection, text) for text in begin]
            steps = [one[0] if isinstance(one, tuple) and one[0] == "42601" else one for one in steps]
            shown = _outcome(connection, "SHOW transaction_read_only")
            found.append((steps, shown, _outcome(connection, "SELECT a FROM kept"), _outcome(connection, change)))
            for text in ("ROLLBACK", "RESET default_transaction_read_only", "DEALLOCATE change"):
                connection.execute(text.encode())
            connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
        assert found[0] == found[1]
        assert found[0][3][0] == "25006"


def test_temporary_rows(both: Any) -> None:
    """A read-only transaction changes the rows of temporary tables, and makes and drops none."""
    steps = (
        "CREATE TEMPORARY TABLE mine (a int)",
        "BEGIN READ ONLY",
        "INSERT INTO mine VALUES (1), (2)",
        "UPDATE mine SET a = 3 WHERE a = 2",
        "DELETE FROM mine WHERE a = 1",
        "SELECT a FROM mine",
        "TRUNCATE mine",
        "COMMIT",
        "BEGIN READ ONLY",
        "DROP TABLE mine",
        "ROLLBACK",
        "BEGIN READ ONLY",
        "INSERT INTO kept SELECT a FROM mine",
        "ROLLBACK",
    )
    found = [[_outcome(connection, text) for text in steps] for connection in both]
    assert found[0] == found[1]
    for connection in both:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN READ ONLY")
            with cursor.copy("COPY mine FROM STDIN") as copy:
                copy.write("7\n")
            assert cursor.execute("SELECT count(*) FROM mine WHERE a = 7").fetchone() == (1,)
            cursor.execute("COMMIT")


@pytest.mark.parametrize(
    "steps",
    [
        *(
            ("SET statement_timeout = '" + value + "'", "SHOW statement_timeout")
            for value in ("100us", "600us", "1.5s")
        ),
        *(
            (f"SET default_transaction_read_only = {value}", "SHOW default_transaction_read_only")
            for value in ("t", "'T'", "ye", "'of'", "n", "'o'", "2", "1")
        ),
    ],
)
def test_values(both: Any, steps: tuple[str, ...]) -> None:
    """Times are rounded to milliseconds, and a Boolean value can be shortened, as in PostgreSQL."""
    found = list[Any]()
    for connection in both:
        found.append([_outcome(connection, text) for text in steps])
        for text in ("RESET statement_timeout", "RESET default_transaction_read_only"):
            connection.execute(text.encode())
    assert found[0] == found[1]


def test_a_rounded_timeout(place: Place) -> None:
    """A limit that is shown as 0 stops nothing."""
    with place.connect() as connection:
        connection.execute("SET statement_timeout = '100us'")
        assert connection.execute("SELECT count(*) FROM t").fetchone() is not None


def test_drivers(place: Place) -> None:
    """The drivers' own ways of asking for a read-only transaction work."""
    asyncpg = pytest.importorskip("asyncpg", reason="the extra 'test' is not installed")
    with psycopg.connect(place.dsn()) as connection:
        notes = list[str]()
        connection.add_notice_handler(lambda note: notes.append(str(note.message_primary)))
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE made AS SELECT 1 AS a")
        connection.rollback()
        assert notes == ["the isolation level is read committed here, instead of serializable"]

    async def talk() -> None:
        other = await asyncpg.connect(host="127.0.0.1", port=place.port, user="me", database="flightllm")
        try:
            with pytest.raises(asyncpg.exceptions.ReadOnlySQLTransactionError):
                async with other.transaction(readonly=True, isolation="repeatable_read", deferrable=True):
                    await other.execute("CREATE TABLE made AS SELECT 1 AS a")
            await other.execute("CREATE OR REPLACE TABLE made AS SELECT 1 AS a")
        finally:
            await other.close()

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


@pytest.mark.parametrize(
    "steps",
    [
        ("BEGIN", "SET application_name = 'in'", "ROLLBACK"),
        ("BEGIN", "SET application_name = 'in'", "COMMIT"),
        ("BEGIN", "SET LOCAL application_name = 'in'", "COMMIT"),
        ("BEGIN", "SET application_name = 'one'", "SET LOCAL application_name = 'two'", "COMMIT"),
        ("BEGIN", "SET LOCAL application_name = 'two'", "SET application_name = 'one'", "COMMIT"),
        ("BEGIN", "SET LOCAL application_name = 'two'", "RESET application_name", "COMMIT"),
        ("BEGIN", "SET application_name = 'in'", "SELECT nope", "COMMIT"),
        ("SET LOCAL application_name = 'in'",),
        ("BEGIN", "SET LOCAL statement_timeout = '5s'", "SET LOCAL search_path = pg_catalog", "COMMIT"),
        ("BEGIN", "SET statement_timeout = '5s'", "SET search_path = pg_catalog", "ROLLBACK"),
        ("BEGIN", "SET statement_timeout = '5s'", "SET LOCAL search_path = pg_catalog", "END"),
        ("BEGIN", "SET LOCAL search_path = pg_catalog", "SET search_path = pg_catalog", "END"),
        ("BEGIN", "SET LOCAL statement_timeout = '5s'", "SET statement_timeout = '7s'", "COMMIT"),
        ("BEGIN", "SET LOCAL statement_timeout = '5s'", "SELECT set_config('application_name', 'in', false)", "COMMIT"),
        (
            "BEGIN",
            "SET LOCAL application_name = 'two'",
            "SELECT set_config('application_name', 'in', false)",
            "COMMIT",
        ),
        ("BEGIN", "SET LOCAL work_mem = '5MB'", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "COMMIT"),
        ("BEGIN", "SET LOCAL client_encoding = 'UTF8'", "SET search_path = pg_catalog", "COMMIT"),
        ("BEGIN", "SET application_name = 'a'", "SAVEPOINT s", "SET application_name = 'b'", "ROLLBACK TO s", "COMMIT"),
        (
            "BEGIN",
            "SET LOCAL statement_timeout = '1s'",
            "SAVEPOINT s",
            "SET statement_timeout = '2s'",
            "SELECT nope",
            "ROLLBACK TO s",
            "SHOW statement_timeout",
            "COMMIT",
        ),
        ("BEGIN", "SAVEPOINT s", "SET LOCAL application_name = 'b'", "RELEASE s", "SHOW application_name", "COMMIT"),
    ],
)
def test_settings_end(both: Any, steps: tuple[str, ...]) -> None:
    """SET LOCAL ends with its transaction, and SET with a transaction that is rolled back; the client is told."""
    found = list[Any]()
    for connection in both:
        for text in ("SET application_name = 'before'", "SET search_path = public"):
            connection.execute(text.encode())
        told = [one for text in steps if isinstance(one := _outcome(connection, text), list)]
        shown = [_outcome(connection, f"SHOW {name}") for name in _ENDING]
        found.append((told, shown, connection.info.parameter_status("application_name")))
        connection.execute("RESET ALL")
    assert found[0] == found[1]


def test_own_settings_end(place: Place) -> None:
    """The server's own settings end too, but a session that was made read-only stays so."""
    with place.connect() as connection:
        for text in ("BEGIN", "SET LOCAL flightllm.timeout = 7", "COMMIT"):
            connection.execute(text.encode())
        assert connection.execute("SHOW flightllm.timeout").fetchone() != ("flightllm.timeout", "7.0")
        for text in ("BEGIN", "SET LOCAL search_path = pg_catalog", "USE public", "COMMIT"):
            connection.execute(text.encode())
        assert connection.execute("SHOW search_path").fetchone() == ("public",)
        for text in ("BEGIN", "SET LOCAL flightllm.timeout = 7", "SET statement_timeout = '9s'", "COMMIT"):
            connection.execute(text.encode())
        assert connection.execute("SHOW flightllm.timeout").fetchone() == ("flightllm.timeout", "9.0")
        for text in ("BEGIN", "SET flightllm.read_only = on", "ROLLBACK"):
            connection.execute(text.encode())
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE made2 (a int)")
