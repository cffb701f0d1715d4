"""Sessions in a schema of their own, with temporary tables, as several users share a database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.config import Config, EngineConfig
from flightllm.errors import FlightLLMError, NotFoundError, PermissionDeniedError, SqlError, UnsupportedError
from flightllm.session.database import Database
from flightllm.session.session import Session


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with `t` in two schemas."""
    database = Database.open(Config(engine=EngineConfig(kind="fake"), data_folder=tmp_path))
    session = database.session()
    for user in (User("ann", "user"), User("bob", "readonly")):
        database.access.store.add_user(user)
    for sql in (
        *("CREATE TABLE t (a INT, s VARCHAR)", "INSERT INTO t VALUES (1, 'public')", "CREATE SCHEMA x"),
        *("USE x", "CREATE TABLE t (a INT PRIMARY KEY, s VARCHAR)", "INSERT INTO t VALUES (2, 'x')"),
        "CREATE VIEW v AS SELECT a + 1 AS b FROM t",
    ):
        session.update(sql)
    session.close()
    yield database
    database.close()


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    result = session.execute(sql)
    table = pa.Table.from_batches(result.batches, result.schema)
    assert session.describe(sql).schema == result.schema
    return [tuple(column[i].as_py() for column in table.columns) for i in range(len(table))]


def test_everything_follows_the_schema(database: Database) -> None:
    """Queries, changes, views, AI calls, indexes and rights mean the tables of the session's schema."""
    session, other = database.session(), database.session()
    session.update("USE x")
    assert _rows(session, "SELECT a, s FROM t") == [(2, "x")]
    assert _rows(session, "SELECT ai_gen('What?', t.*) IS NOT NULL AS ok FROM t") == [(True,)]
    assert session.update("INSERT INTO t SELECT a + 1, s FROM t") == 1
    assert session.update("UPDATE t SET s = 'y' WHERE t.a = 3") == 1
    assert session.update("DELETE FROM t WHERE a = 2") == 1
    session.update("CREATE TABLE made AS SELECT * FROM t")
    assert session.ingest("made", [pa.record_batch({"a": [9], "s": ["z"]}).cast(_SCHEMA)], _SCHEMA, "append") == 1
    assert _rows(session, "SELECT count(*) FROM x.made") == [(2,)]
    session.update("GRANT SELECT ON made TO ann")
    assert _rows(session, "SELECT schema, name FROM system.grants WHERE grantee = 'ann'") == [("x", "made")]
    assert [row[0] for row in _rows(session, "DESCRIBE made")] == ["a", "s"]
    session.update("CREATE TABLE more AS SELECT 9 AS b")
    assert session.update("WITH c AS (SELECT 1 AS d) DELETE FROM made USING more, c WHERE made.a = more.b") == 1
    assert session.update("MERGE INTO made USING more AS m ON a = m.b - 6 WHEN MATCHED THEN DELETE") == 1
    session.update("DROP TABLE made, more")
    assert _rows(other, "SELECT a, s FROM t") == [(1, "public")]
    assert _rows(other, "SELECT b FROM x.v") == [(4,)]
    assert session.get_options()["schema"] == "x"
    session.reset_option("schema")
    assert _rows(session, "SELECT s FROM t") == [("public",)]


_SCHEMA = pa.schema([("a", pa.int32()), ("s", pa.string())])


def test_an_upload_adds_to_the_table_that_a_statement_would_find(database: Database) -> None:
    """Rows go to the table of the exact name, or to the one table of the name in any case; two such are no table."""
    session = database.session()
    session.update('CREATE SCHEMA "Sales"')
    for name in ("small", '"Big"', '"Sales"."Orders"', '"Twice"', '"TWICE"'):
        session.update(f"CREATE TABLE {name} (a INT, s TEXT)")

    def added(table: str, schema: str = "") -> int:
        return session.ingest(
            table, [pa.record_batch({"a": [9], "s": ["z"]}, _SCHEMA)], _SCHEMA, "append", db_schema=schema
        )

    for names in (("SMALL",), ("small",), ("big",), ("orders", "sales"), ("Twice",)):
        assert added(*names) == 1
    with pytest.raises(NotFoundError, match="twice"):
        added("twice")
    counts = [
        _rows(session, f"SELECT count(*) FROM {name}") for name in ("small", '"Big"', '"Sales"."Orders"', '"Twice"')
    ]
    assert counts == [[(2,)], [(1,)], [(1,)], [(1,)]]


def test_a_search_path(database: Database) -> None:
    """Names are looked up in its schemas in order; those that are not there are left out, and one has to be."""
    session = database.session()
    session.update('SET search_path TO "$user", nope, x, public')
    assert _rows(session, "SELECT s FROM t") == [("x",)]
    session.update("DROP VIEW v")
    session.update("CREATE TABLE public.only (a INT)")
    assert _rows(session, "SELECT * FROM only") == []
    session.update("SET SCHEMA 'public'")
    assert _rows(session, "SELECT s FROM t") == [("public",)]
    for sql in ("USE nope", "SET search_path TO nope", "USE other.public", "SET search_path ="):
        with pytest.raises((NotFoundError, SqlError)):
            session.update(sql)
    assert _rows(session, "SELECT current_schema()") == [("public",)]


def test_temporary_tables(database: Database) -> None:
    """They shadow others, for their session alone, can be changed and read by views of theirs, and end with it."""
    session, other = database.session(), database.session()
    session.update("CREATE TEMP TABLE t AS SELECT 10 AS a")
    session.update("CREATE TEMPORARY VIEW doubled AS SELECT 2 * a AS a FROM t")
    session.update('CREATE LOCAL TEMPORARY TABLE "#Tableau" (a INT) ON COMMIT PRESERVE ROWS')
    assert session.update("INSERT INTO t VALUES (11)") == 1
    assert session.update("UPDATE t SET a = a + 1 WHERE a = 11") == 1
    assert _rows(session, "SELECT t.a, doubled.a FROM t JOIN doubled ON doubled.a = 2 * t.a ORDER BY 1") == [
        (10, 20),
        (12, 24),
    ]
    assert _rows(session, "SELECT s FROM public.t") == [("public",)]
    (schema,) = [name for name in session.catalog.schemas() if name.startswith("pg_temp_")]
    for sql in ("SELECT a FROM doubled", f"SELECT a FROM {schema}.t", 'SELECT * FROM "#Tableau"'):
        with pytest.raises(FlightLLMError):
            _rows(other, sql)
    for sql in ("CREATE VIEW kept AS SELECT * FROM t", "GRANT SELECT ON t TO ann", "CREATE VECTOR INDEX i ON t(a)"):
        with pytest.raises(UnsupportedError, match="temporary"):
            session.update(sql)
    assert schema not in str([*other.catalog.schemas(), *other.catalog.tables(), *other.catalog.entries])
    session.update("DROP TABLE pg_temp.t")
    assert _rows(session, "SELECT s FROM t") == [("public",)]
    with pytest.raises(NotFoundError, match="'t'"):
        session.update("DROP TABLE pg_temp.t")
    session.close()
    assert not [name for name in database.catalog.store.entries if name.schema == schema]
    with pytest.raises(FlightLLMError, match="closed"):
        session.update("CREATE TEMP TABLE late (a INT)")


def test_temporary_tables_of_somebody_who_may_make_no_others(database: Database) -> None:
    """A user needs no right to a schema for them; one who may only read has none."""
    ann, bob = database.session(Principal("ann", "user")), database.session(Principal("bob", "readonly"))
    with pytest.raises(PermissionDeniedError):
        ann.update("CREATE TABLE mine (a INT)")
    ann.update("CREATE TEMP TABLE mine (a INT)")
    assert ann.update("INSERT INTO mine VALUES (1)") == 1
    assert _rows(ann, "SELECT a, current_user FROM mine") == [(1, "ann")]
    with pytest.raises(PermissionDeniedError):
        bob.update("CREATE TEMP TABLE mine (a INT)")
    with pytest.raises(FlightLLMError):
        _rows(database.session(Principal("ann", "user")), "SELECT a FROM mine")


def test_system_functions_in_row_filters_mean_who_asks(database: Database) -> None:
    """A filter that was declared in another schema by another user keeps the rows of whoever asks."""
    session, ann = database.session(), database.session(Principal("ann", "user"))
    session.update("USE x")
    session.update("INSERT INTO t VALUES (3, 'ann')")
    session.update("GRANT SELECT ON t TO ann")
    session.update("CREATE ROW FILTER ON t TO ann AS s = current_user")
    ann.update("USE x")
    assert _rows(ann, "SELECT a FROM t") == [(3,)]
    session.update("CREATE OR REPLACE ROW FILTER ON t TO ann AS s <> current_user")
    assert _rows(ann, "SELECT a, current_user FROM t") == [(2, "ann")]


@pytest.mark.parametrize("word", ["schema", "table", "model", "prompt", "function", "filter"])
def test_rights_on_tables_named_as_a_kind(database: Database, word: str) -> None:
    """A right on a table whose name is the word of a kind is for the table that the session's path finds."""
    session = database.session()
    session.update("CREATE SCHEMA s1")
    for schema in ("public", "s1"):
        session.update(f'CREATE TABLE {schema}."{word}" (a INT)')
    session.update("SET search_path = s1, public")
    listed = "SELECT kind, schema, name FROM system.grants WHERE grantee = 'ann'"
    for name in (word, f'"{word}"', f's1."{word}"', f'TABLE "{word}"'):
        session.update(f"GRANT SELECT ON {name} TO ann")
        assert _rows(session, listed) == [("TABLE", "s1", word)], name
        session.update(f"REVOKE SELECT ON {name} FROM ann")
        assert _rows(session, listed) == [], name


def test_rights_on_functions_under_a_path(database: Database) -> None:
    """A right on a function is for the function, also under a path with a table of its name."""
    session = database.session()
    session.update("SET search_path = x")
    session.update("CREATE FUNCTION t(v) AS ai_filter('Is it good?', v)")
    for kind in ("FUNCTION", "FILTER"):
        session.update(f"GRANT USAGE ON {kind} t TO ann")
        listed = "SELECT kind, schema, name FROM system.grants WHERE grantee = 'ann'"
        assert _rows(session, listed) == [("FUNCTION", "", "t")]
        session.update(f"REVOKE USAGE ON {kind} t FROM ann")


def test_keys_of_described_tables(database: Database) -> None:
    """DESCRIBE of a table tells the keys of each column, and that nothing enforces these; that of a query does not."""
    session, ann = database.session(), database.session(Principal("ann", "user"))
    session.update(
        "CREATE TABLE refers (a INT REFERENCES x.t ON DELETE CASCADE, b INT UNIQUE, c INT, d INT,"
        " PRIMARY KEY (b, c), FOREIGN KEY (c, d) REFERENCES refers (b, c))"
    )
    session.update("GRANT SELECT ON refers TO ann")
    expected = [
        ("a", "INTEGER", "YES", "FOREIGN KEY REFERENCES x.t (a); not enforced"),
        ("b", "INTEGER", "NO", "PRIMARY KEY (b, c); UNIQUE; not enforced"),
        ("c", "INTEGER", "NO", "PRIMARY KEY (b, c); FOREIGN KEY (c, d) REFERENCES refers (b, c); not enforced"),
        ("d", "INTEGER", "YES", "FOREIGN KEY (c, d) REFERENCES refers (b, c); not enforced"),
    ]
    assert _rows(session, "DESCRIBE refers") == _rows(ann, "DESC public.refers") == expected
    assert {row[3] for row in _rows(session, "DESCRIBE x.v")} == {None}
    assert {row[3] for row in _rows(session, "DESCRIBE information_schema.tables")} == {None}
    assert _rows(session, "DESCRIBE SELECT b FROM refers") == [("b", "INTEGER", "NO")]
    with pytest.raises(NotFoundError, match="nothing"):
        session.execute("DESCRIBE nothing")


def test_keys_in_the_information_schema(database: Database) -> None:
    """Constraints are listed for those who may read their table."""
    session, ann = database.session(), database.session(Principal("ann", "user"))
    session.update("CREATE TABLE refers (a INT REFERENCES x.t ON DELETE CASCADE, b INT UNIQUE)")
    listed = "SELECT table_name, constraint_type FROM information_schema.table_constraints ORDER BY 1, 2"
    assert _rows(session, listed) == [("refers", "FOREIGN KEY"), ("refers", "UNIQUE"), ("t", "PRIMARY KEY")]
    assert _rows(ann, listed) == []
    session.update("GRANT SELECT ON refers TO ann")
    assert [name for name, _ in _rows(ann, listed)] == ["refers", "refers"]
    joined = (
        "SELECT k.column_name, r.delete_rule, r.unique_constraint_name FROM information_schema.key_column_usage k"
        " JOIN information_schema.referential_constraints AS r USING (constraint_name)"
    )
    assert _rows(session, joined) == [("a", "CASCADE", "t_pkey")]
    session.update("DROP VIEW x.v")
    session.update("DROP TABLE x.t")
    assert _rows(session, joined) == []


def test_transactions_in_sql(database: Database) -> None:
    """BEGIN, COMMIT and the like are taken; ROLLBACK says where it undid nothing, once."""
    session = database.session()
    for sql in ("BEGIN", "SAVEPOINT a", "COMMIT", "START TRANSACTION", "ROLLBACK", "END", "BEGIN TRANSACTION"):
        session.update(sql)
    session.update("INSERT INTO t VALUES (5, 'z')")
    with pytest.raises(UnsupportedError, match="ROLLBACK undid nothing: the statement since BEGIN took effect"):
        session.update("ROLLBACK")
    session.update("ROLLBACK")
    session.update("INSERT INTO t VALUES (6, 'z')")
    session.update("ROLLBACK")  # outside of a transaction it undoes nothing anywhere
    assert _rows(session, "SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, ISOLATION LEVEL READ UNCOMMITTED",
        "SET autocommit = 1",
        "SET TIME ZONE 'UTC'",
        "SET timezone TO 'Etc/UTC'",
        "SET datestyle = ISO, MDY",
        "SET client_encoding = 'UTF8';",
        "SET NAMES utf8mb4",
        "SET SESSION application_name = 'a tool'",
        "SET extra_float_digits = -3",
        "SET SESSION TRANSACTION READ WRITE",
        "SET statement_timeout = 0",
        "SET LOCAL statement_timeout TO '0'",
        "RESET timezone",
        "RESET TIME ZONE",
        "RESET application_name",
        "RESET statement_timeout",
    ],
)
def test_parameters_that_hold_anyway(database: Database, sql: str) -> None:
    """What clients set when they connect is taken where the server works so anyway; nothing changes."""
    session = database.session()
    before = session.get_options()
    assert session.describe(sql).is_update
    session.update(sql)
    assert session.get_options() == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SET TRANSACTION READ ONLY", "transactions cannot be 'READ ONLY' here"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "'ISOLATION LEVEL SERIALIZABLE' here: every statement reads"),
        ("SET autocommit = off", "autocommit cannot be 'off' here: it is 'on'"),
        ("SET timezone = 'Europe/Berlin'", "timezone cannot be 'europe/berlin' here: it is 'utc'"),
        ("SET client_encoding = 'latin1'", "client_encoding cannot be 'latin1' here: it is 'UTF8'"),
        ("SET SESSION TRANSACTION READ ONLY", "transactions cannot be 'READ ONLY' here"),
        ("SET statement_timeout = '5s'", "write SET flightllm.timeout = 5 to stop a statement after 5 s"),
        ("RESET work_mem", "only this server's own settings"),
        ("SET application_name", "only this server's own settings"),
        ("SET work_mem = '1GB'", "only this server's own settings"),
        ("SET", "only this server's own settings"),
    ],
)
def test_parameters_that_do_not_hold(database: Database, sql: str, said: str) -> None:
    """Another value is refused, with the value that holds; other parameters are unknown."""
    with pytest.raises(UnsupportedError, match=said):
        database.session().update(sql)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT TOP 2 CAST(a AS NVARCHAR(9)), +* FROM t", "Line: 1, Column: 39"),
        ("SELECT a::NUMBER(9), N'x',\n  current_user ) FROM t", "at 2:16"),
        ("SELECT CAST(a AS NTEXT), ai_gen() FROM t", "at 1:26"),
    ],
)
def test_errors_point_into_the_sent_text(database: Database, sql: str, place: str) -> None:
    """Where a statement was rewritten, an error still says where in the user's own text it is."""
    session = database.session()
    session.update("USE x")
    with pytest.raises(SqlError, match=place):
        session.execute(sql)
