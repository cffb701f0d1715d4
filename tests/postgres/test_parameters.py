"""Parameters of a connection: those of its start, and what each way tells of them."""

from typing import Any

import psycopg
import pytest

from tests.postgres.support import Place


@pytest.mark.parametrize("back", ["DISCARD ALL", "RESET ALL"])
def test_parameters_of_the_start(place: Place, back: str) -> None:
    """DISCARD ALL and RESET ALL go back to what the client gave at its start, as in PostgreSQL."""
    with place.connect() as connection:
        for text in (
            "CREATE SCHEMA IF NOT EXISTS s2",
            "CREATE OR REPLACE TABLE w AS SELECT 1 AS a",
            "CREATE OR REPLACE TABLE s2.w AS SELECT 2 AS a",
        ):
            connection.execute(text)
    options = "-c flightllm.read_only=on -c search_path=s2 -c statement_timeout=20s -c flightllm.max_calls=7"
    with place.connect(options=options) as connection:
        for text in (
            "SET search_path = public",
            "SET statement_timeout = 0",
            "SET flightllm.max_calls = 9",
            "SET flightllm.max_tokens = 9",
        ):
            connection.execute(text)
        assert connection.execute("SELECT a FROM w").fetchall() == [(1,)]
        connection.execute(back)
        assert connection.execute("SELECT a FROM w").fetchall() == [(2,)]
        shown = {"statement_timeout": "20s", "flightllm.max_calls": "7", "flightllm.max_tokens": "none"}
        for name, value in shown.items():
            assert connection.execute(f"SHOW {name}").fetchall()[0][-1] == value
        with pytest.raises(psycopg.Error, match="read_only is on"):
            connection.execute("DELETE FROM w")


def test_reset_of_one_parameter(place: Place) -> None:
    """RESET and SET … TO DEFAULT go back to the value of the start."""
    with place.connect() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS s2")
    options = "-c search_path=s2 -c statement_timeout=20s -c flightllm.max_calls=7 -c application_name=tool"
    with place.connect(options=options) as connection:
        for back in ("RESET {}", "SET {} TO DEFAULT"):
            for name, other, first in (
                ("search_path", "public", "s2"),
                ("statement_timeout", "'1s'", "20s"),
                ("application_name", "'x'", "tool"),
            ):
                connection.execute(f"SET {name} = {other}")
                connection.execute(back.format(name))
                told = "current_schema()" if name == "search_path" else f"current_setting('{name}')"
                assert connection.execute(f"SELECT {told}").fetchall() == [(first,)]
        connection.execute("SET flightllm.max_calls = 9")
        connection.execute("RESET flightllm.max_calls")
        assert connection.execute("SHOW flightllm.max_calls").fetchall()[0][-1] == "7"


def test_a_schema_that_is_gone(place: Place) -> None:
    """DISCARD ALL ends the connection if the schema of its start is gone, rather than read other tables."""
    with place.connect() as other:
        other.execute("CREATE SCHEMA gone")
        with place.connect(options="-c search_path=gone") as connection:
            other.execute("DROP SCHEMA gone")
            with pytest.raises(psycopg.Error, match="gone"):
                connection.execute("DISCARD ALL")
            assert connection.closed


@pytest.mark.parametrize("name", ["lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"])
def test_timeouts_that_nothing_applies(place: Place, name: str) -> None:
    """Pools set these limits when they connect; a wrong one is refused."""
    with place.connect(options=f"-c {name}=1000") as connection:
        assert connection.execute(f"SHOW {name}".encode()).fetchall() == [("1s",)]
        connection.execute(f"SET {name} = '2min'".encode())
        assert connection.execute(f"SHOW {name}".encode()).fetchall() == [("2min",)]
        connection.execute(f"RESET {name}".encode())
        assert connection.execute(f"SHOW {name}".encode()).fetchall() == [("1s",)]
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(f"SET {name} = 'soon'".encode())


def test_one_table_of_parameters(place: Place) -> None:
    """SHOW, current_setting and pg_settings tell the same of each parameter, also after SET and set_config."""
    with place.connect(application_name="first") as connection:

        def told(name: str) -> set[str]:
            ways = (
                f"SHOW {name}",
                f"SELECT current_setting('{name}')",
                f"SELECT setting FROM pg_settings WHERE name = '{name}'",
            )
            return {connection.execute(text).fetchall()[0][0] for text in ways}

        assert told("application_name") == {"first"}
        connection.execute("SET application_name = 'abc'")
        assert told("application_name") == {"abc"}
        assert connection.execute("SELECT set_config('application_name', 'zzz', false)").fetchall() == [("zzz",)]
        assert told("application_name") == {"zzz"}
        connection.execute("SET statement_timeout = '5s'")
        assert told("statement_timeout") == {"5s"}
        for name in ("client_encoding", "TimeZone", "lc_collate", "work_mem", "is_superuser"):
            assert len(told(name)) == 1, name
        for text in (
            "'statement_timeout', '0', false",
            "'lock_timeout', 'soon', false",
            "'search_path', 's', false",
            "'application_name', 'x', true",
        ):
            with pytest.raises(psycopg.Error, match=r"set_config|invalid value"):
                connection.execute(f"SELECT set_config({text})")


@pytest.mark.parametrize("path", ["pg_catalog", "pg_catalog, public", "information_schema"])
def test_a_search_path_of_the_catalog(place: Place, path: str) -> None:
    """`postgres_fdw` searches the catalog alone, and names the schema of each table."""
    with place.connect() as connection:
        connection.execute(f"SET search_path = {path}".encode())
        assert connection.execute("SHOW search_path").fetchone() == (path,)
        assert connection.execute("SELECT relname FROM pg_class WHERE relname = 't'").fetchone() == ("t",)
        assert connection.execute("SELECT count(*) FROM public.t").fetchone() == (10_000,)
        if "public" in path:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (10_000,)
        else:
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT * FROM t")


def test_versions(place: Place) -> None:
    """Queries, cursors, COPY and EXECUTE have the version of PostgreSQL, beside tables too."""
    with place.connect() as connection, connection.cursor() as cursor:
        sql = "SELECT version() FROM t WHERE a = 1"
        with cursor.copy(f"COPY ({sql}) TO STDOUT") as copy:
            copied = b"".join(map(bytes, copy)).decode().strip()
        cursor.execute(f"PREPARE versions AS {sql}")
        found = [cursor.execute(text).fetchone() for text in (sql, "SELECT pg_catalog.version()", "EXECUTE versions")]
        assert copied.startswith("PostgreSQL 15.0 (FlightLLM ")
        assert found == [(copied,)] * 3
        assert cursor.execute("SELECT pg_advisory_unlock_all()").fetchall() == [(None,)]


def test_set_config_is_told(place: Place) -> None:
    """The client hears of a parameter that a function changed, and not of one that stayed."""
    with place.connect() as connection:
        told = connection.pgconn.parameter_status
        connection.execute("SELECT set_config('application_name', 'a tool', false)")
        assert told(b"application_name") == b"a tool"
        connection.execute("SET application_name = 'another'")
        assert told(b"application_name") == b"another"
        connection.execute("RESET application_name")
        assert told(b"application_name") == b""


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT position('b' IN %s)", ["abc"]),
        ("SELECT position(%s IN %s)", ["c", "abc"]),
        ("SELECT 1 WHERE position('b' IN %s) > 0 AND 2 IN (%s, %s)", ["abc", 1, 2]),
        ("SELECT a FROM (VALUES (1), (2), (3)) AS t (a) WHERE a IN (%s, %s) ORDER BY a", [3, 1]),
        ("SELECT a FROM (VALUES (1), (2), (3)) AS t (a) WHERE a NOT IN (%s) ORDER BY a", [2]),
        ("SELECT a FROM (VALUES ('x'), ('y')) AS t (a) WHERE position(a IN %s) = 1 AND a IN (%s)", ["xy", "x"]),
        ("SELECT overlay(%s PLACING %s FROM %s)", ["abcdef", "ZZ", 3]),
        ("SELECT overlay(%s PLACING %s FROM %s FOR %s)", ["abcdef", "ZZ", 3, 1]),
        ("SELECT trim(both 'x' FROM %s)", ["xxaxx"]),
        ("SELECT trim(leading %s FROM %s)", ["x", "xxaxx"]),
        ("SELECT extract(year FROM %s::timestamp)::int", ["2024-05-06 07:08:09"]),
        ("SELECT substring(%s FROM %s::int FOR %s::int)", ["abcdef", 2, 3]),
        ("SELECT substring(%s FROM %s::int)", ["abcdef", 3]),
    ],
)
@pytest.mark.parametrize("cursor", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
def test_words_between_arguments(
    place: Place, reference: "psycopg.Connection[Any]", sql: str, values: list[object], cursor: type[Any]
) -> None:
    """Functions that take words between their arguments, and lists after IN, take parameters as in PostgreSQL."""
    if cursor is psycopg.RawCursor:
        for number in range(1, len(values) + 1):
            sql = sql.replace("%s", f"${number}", 1)
    with place.connect() as connection:
        connection.cursor_factory = cursor
        found = connection.cursor().execute(sql, values).fetchall()
    assert found == cursor(reference).execute(sql, values).fetchall()


def test_lists_after_in(place: Place, reference: "psycopg.Connection[Any]") -> None:
    """IN with one parameter for its list is refused as in PostgreSQL, also beside `position`."""
    for sql in ("SELECT 1 WHERE 1 IN %s", "SELECT 1 WHERE position('b' IN 'abc') IN %s"):
        with place.connect() as connection:
            for one in (connection, reference):
                with pytest.raises(psycopg.ProgrammingError):
                    one.execute(sql, [[1, 2]])
