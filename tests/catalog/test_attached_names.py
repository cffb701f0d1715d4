"""Names of attached tables in texts of all kinds, and names that only look like them."""

from collections.abc import Iterator

import pytest

from flightllm.access.rights import Rights
from flightllm.catalog.attached_names import with_attached_names
from flightllm.common.principal import LOCAL, Principal
from flightllm.errors import UnsupportedError
from flightllm.session.database import Database
from tests.databases import ask, open_database
from tests.sources import sqlite_file


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a database with a file attached as `crm`."""
    folder = tmp_path_factory.mktemp("data")
    database = open_database(folder / "data")
    database.session().update(f"ATTACH '{sqlite_file(folder / 'x.sqlite')}' AS crm")
    yield database
    database.close()


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT * FROM crm.people", 'SELECT * FROM "crm.main".people'),
        ("SELECT * FROM CRM.Main.people p", 'SELECT * FROM "crm.main".people p'),
        ('SELECT * FROM "crm"."main"."people"', 'SELECT * FROM "crm.main"."people"'),
        ("SELECT crm.people.id FROM crm.people", 'SELECT "crm.main".people.id FROM "crm.main".people'),
        ("SELECT crm.main.people.id FROM crm.main.people", 'SELECT "crm.main".people.id FROM "crm.main".people'),
        ("SELECT * FROM t, crm.people", 'SELECT * FROM t, "crm.main".people'),
        ("SELECT crm.id FROM t AS crm", "SELECT crm.id FROM t AS crm"),
        ("SELECT crm.name FROM crm.people AS crm", 'SELECT crm.name FROM "crm.main".people AS crm'),
        ("SELECT extract(year FROM crm.day) FROM t AS crm", "SELECT extract(year FROM crm.day) FROM t AS crm"),
        ("SELECT a.crm.people FROM a", "SELECT a.crm.people FROM a"),
        ("SELECT 'crm.people'", "SELECT 'crm.people'"),
        ("SELECT crm FROM t", "SELECT crm FROM t"),
        ("SELECT t.crm FROM crm.gone t", 'SELECT t.crm FROM "crm.main".gone t'),
        ("GRANT SELECT ON crm.people TO ann", 'GRANT SELECT ON "crm.main".people TO ann'),
        ("GRANT SELECT ON SCHEMA crm.main TO ann", 'GRANT SELECT ON SCHEMA "crm.main" TO ann'),
        ("GRANT SELECT ON SCHEMA crm TO ann", 'GRANT SELECT ON SCHEMA "crm.main" TO ann'),
        ("USE crm", 'USE "crm.main"'),
        ("SHOW TABLES FROM crm.main", 'SHOW TABLES FROM "crm.main"'),
        ("DESCRIBE crm.people", 'DESCRIBE "crm.main".people'),
        ("CREATE ROW FILTER ON crm.people TO ann AS id = 1", 'CREATE ROW FILTER ON "crm.main".people TO ann AS id = 1'),
        ("SET search_path TO crm.main, public", 'SET search_path TO "crm.main", public'),
        ("DETACH crm", "DETACH crm"),
        ("REFRESH DATABASE crm", "REFRESH DATABASE crm"),
    ],
)
def test_names(database: Database, sql: str, read: str) -> None:
    """A name of an attached table has two parts then."""
    assert with_attached_names(sql, database.catalog.store, database.access.rights(LOCAL), "") == read


def test_backticks(database: Database) -> None:
    """In a dialect whose double quotes are around texts, names have backticks."""
    read = with_attached_names(
        "SELECT * FROM crm.people", database.catalog.store, database.access.rights(LOCAL), "spark"
    )
    assert read == "SELECT * FROM `crm.main`.people"


@pytest.mark.parametrize("name", ["`crm.people`", "`crm.main.people`", "`crm`.people", "crm.`main`.people"])
def test_bigquery(database: Database, name: str) -> None:
    """BigQuery divides names at dots: the error says to make a view, and the view can be read."""
    session = database.session()
    with pytest.raises(UnsupportedError, match="make a view of the table in the dialect default"):
        ask(session, f"SELECT count(*) AS n FROM {name}", dialect="bigquery")
    session.update("CREATE OR REPLACE VIEW seen AS SELECT * FROM crm.people")
    assert ask(session, "SELECT count(*) AS n FROM `seen`", dialect="bigquery").rows == [{"n": 4}]


@pytest.mark.parametrize("dialect", ["snowflake", "databricks", "spark", "duckdb", "postgres"])
def test_dialects(database: Database, dialect: str) -> None:
    """In each other dialect, names of two and three parts are found."""
    session = database.session()
    for name in ("crm.people", "crm.main.people"):
        query = f"SELECT p.id FROM {name} AS p WHERE p.name = 'bob' LIMIT 1"
        assert ask(session, query, dialect=dialect).table.column(0).to_pylist() == [2]


def test_an_unknown_database(database: Database) -> None:
    """For a user without a grant there, the name is that of no database."""
    nobody = Rights(Principal("eve", "user"), frozenset(), ())
    sql = "SELECT * FROM crm.people"
    assert with_attached_names(sql, database.catalog.store, nobody, "") is sql
