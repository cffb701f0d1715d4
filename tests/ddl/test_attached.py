"""ATTACH, DETACH, REFRESH DATABASE and SHOW DATABASES: who may run them, what they keep, and whom they show what."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.attached.database import AttachedDatabase
from flightllm.common.principal import Principal
from flightllm.config import AttachedConfig, Config, EngineConfig
from flightllm.errors import ConfigError, FlightLLMError, InvalidInputError, PermissionDeniedError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import explained, open_database, rows
from tests.sources import sqlite_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of SQLite."""
    return sqlite_file(tmp_path / "shop.sqlite", "CREATE TABLE hidden AS SELECT 'top' AS secret_column")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with users."""
    database = open_database(tmp_path / "data")
    for name in ("ann", "eve"):
        database.access.store.add_user(User(name, "user"))
    yield database
    database.close()


def session_of(database: Database, name: str) -> Session:
    """Return a session of a user."""
    return database.session(Principal(name, "user"))


def refused(session: Session, sql: str) -> str:
    """Return the error of a statement."""

    def run() -> None:
        if session.is_update(sql):
            session.update(sql)
        else:
            rows(session, sql)

    with pytest.raises(FlightLLMError) as raised:
        run()
    return f"{type(raised.value).__name__}: {raised.value}"


def test_it_outlives_the_server(tmp_path: Path, file: Path) -> None:
    """An attached database is there after a restart, and its grants; DETACH ends both."""
    first = open_database(tmp_path / "data")
    first.access.store.add_user(User("ann", "user"))
    admin = first.session()
    admin.update(f"ATTACH '{file}' AS shop")
    admin.update("GRANT SELECT ON shop.people TO ann")
    admin.update("CREATE VIEW v AS SELECT count(*) AS n FROM shop.people")
    first.close()
    later = open_database(tmp_path / "data")
    assert rows(session_of(later, "ann"), "SELECT count(*) AS n FROM shop.people") == [{"n": 4}]
    later.close()
    again = open_database(tmp_path / "data")
    assert rows(again.session(), "SELECT * FROM v") == [{"n": 4}]
    again.session().update("DETACH shop")
    assert not [grant for grant in again.access.store.snapshot().grants if grant.kind == "TABLE"]
    again.session().update(f"ATTACH '{file}' AS shop")
    assert "not found" in refused(session_of(again, "ann"), "SELECT * FROM shop.people")
    again.close()


def test_a_secret_is_not_kept(tmp_path: Path, database: Database) -> None:
    """A database whose address holds a password lasts as long as the server; nothing on disk has the password."""
    store = database.catalog.store.attached
    store.add(AttachedDatabase("crm", AttachedConfig("postgresql://me:pa55word-y@h/d")))
    store.add(AttachedDatabase("erp", AttachedConfig("postgresql://me@h/d", password="env:ERP_PASSWORD")))
    kept = json.loads((tmp_path / "data" / "attached.json").read_text())
    assert list(kept["databases"]) == ["erp"]
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert b"pa55word-y" not in path.read_bytes()


def test_a_reference_that_leads_nowhere(database: Database) -> None:
    """A missing variable is told by its name."""
    text = refused(database.session(), "ATTACH 'env:NO_SUCH_VARIABLE' AS crm (TYPE flightsql)")
    assert "set the environment variable NO_SUCH_VARIABLE" in text


def test_a_damaged_file(tmp_path: Path) -> None:
    """A damaged list of databases is told at the start."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "attached.json").write_text("{")
    with pytest.raises(ConfigError, match=r"attached\.json: it is damaged; move it away"):
        open_database(tmp_path / "data")


def test_configured(tmp_path: Path, file: Path) -> None:
    """A database of the configuration is read at its first use, and DETACH tells where it is from."""
    attached = {"shop": AttachedConfig(str(file)), "gone": AttachedConfig(str(tmp_path / "gone.sqlite"))}
    database = Database.open(Config(engine=EngineConfig("fake"), data_folder=tmp_path / "data", attached=attached))
    session = database.session()
    assert not database.catalog.store.attached.all["shop"].read
    assert rows(session, "SELECT name FROM shop.people WHERE id = 1") == [{"name": "Ann"}]
    assert "the attached database 'gone' failed: the server has no such file" in refused(
        session, "SELECT * FROM gone.t"
    )
    assert {"table_name": "people"} in rows(session, "SELECT table_name FROM information_schema.tables")
    assert "take [attached.shop] out of it" in refused(session, "DETACH shop")
    sqlite_file(tmp_path / "gone.sqlite")
    assert "no such file" in refused(session, "SELECT count(*) FROM gone.people")
    session.update("REFRESH DATABASE gone")
    assert rows(session, "SELECT count(*) AS n FROM gone.people") == [{"n": 4}]
    database.close()


def test_names(file: Path, database: Database) -> None:
    """A name is taken once, and not by the server's own."""
    session = database.session()
    session.update("CREATE SCHEMA mine")
    session.update(f"ATTACH '{file}' AS shop")
    session.update(f"ATTACH IF NOT EXISTS '{file}' AS shop")
    session.update(f"ATTACH OR REPLACE '{file}' AS shop (TYPE sqlite)")
    assert "is attached: write DETACH shop first" in refused(session, f"ATTACH '{file}' AS shop")
    for name in ("mine", "public", "system", "flightllm"):
        assert "is taken" in refused(session, f"ATTACH '{file}' AS {name}")
    assert "cannot name a database" in refused(session, f"ATTACH '{file}' AS \"My Shop\"")
    assert "belongs to an attached database" in refused(session, "CREATE SCHEMA shop")
    assert "belongs to an attached database" in refused(session, "DROP SCHEMA shop.main")
    assert "is a table of an attached database and can only be read" in refused(session, "DROP TABLE shop.people")
    assert "can only be read" in refused(session, "INSERT INTO shop.people VALUES (9, 'x', 1, 'y')")
    assert "can only be read" in refused(session, "CREATE TABLE shop.new AS SELECT 1 AS a")
    assert "there is no attached database 'crm'; the attached databases are: shop" in refused(session, "DETACH crm")
    session.update("DETACH DATABASE IF EXISTS crm")
    session.update("DETACH DATABASE shop")
    assert rows(session, "SHOW DATABASES") == [{"database_name": "flightllm"}]
    assert rows(session, "SHOW SCHEMAS LIKE 'shop%'") == []


def test_only_admins(file: Path, database: Database) -> None:
    """Others cannot attach, detach or refresh."""
    database.session().update(f"ATTACH '{file}' AS shop")
    ann = session_of(database, "ann")
    for sql in (f"ATTACH '{file}' AS other", "DETACH shop", "DETACH IF EXISTS other", "REFRESH DATABASE shop"):
        assert "requires the role admin" in refused(ann, sql)


def test_a_user_without_a_grant_sees_nothing(file: Path, database: Database) -> None:
    """No list, plan or error tells a user that the database, a table or a column exists."""
    database.session().update(f"ATTACH '{file}' AS shop")
    eve = session_of(database, "eve")
    seen = [
        rows(eve, "SHOW DATABASES"),
        rows(eve, "SHOW SCHEMAS"),
        rows(eve, "SHOW ALL TABLES"),
        rows(eve, "SELECT * FROM information_schema.tables"),
        rows(eve, "SELECT * FROM information_schema.columns"),
        rows(eve, "SELECT * FROM information_schema.schemata"),
        rows(eve, "SELECT nspname FROM pg_catalog.pg_namespace"),
        rows(eve, "SELECT relname FROM pg_catalog.pg_class"),
        [str(info) for info in eve.catalog.tables()],
    ]
    for one in seen:
        assert "shop" not in str(one)
        assert "hidden" not in str(one)
    for form in ("SELECT * FROM {}.hidden", "EXPLAIN SELECT * FROM {}.main.hidden", "DESCRIBE {}.hidden",
                 "SELECT secret FROM {}.hidden", "DROP TABLE {}.hidden", "INSERT INTO {}.hidden VALUES (1)",
                 'SELECT * FROM "{}.main".hidden', "USE {}", "SHOW TABLES FROM {}"):  # fmt: skip
        there, nowhere = refused(eve, form.format("shop")), refused(eve, form.format("nope"))
        assert there == nowhere.replace("nope", "shop"), form
        assert "secret_column" not in there


def test_grants_filters_and_masks(file: Path, database: Database) -> None:
    """Grants per table and schema, row filters and masks hold as on own tables."""
    admin, ann = database.session(), session_of(database, "ann")
    admin.update(f"ATTACH '{file}' AS shop")
    admin.update("GRANT SELECT ON shop.people TO ann")
    assert rows(ann, "SELECT count(*) AS n FROM shop.people") == [{"n": 4}]
    assert rows(ann, "SHOW DATABASES") == [{"database_name": "flightllm"}, {"database_name": "shop"}]
    assert "not found" in refused(ann, "SELECT * FROM shop.hidden")
    admin.update("CREATE ROW FILTER ON shop.people TO ann AS score >= 0")
    admin.update("CREATE COLUMN MASK ON shop.people (note) TO ann AS 'masked'")
    expected = [{"id": 1, "note": "masked"}, {"id": 4, "note": "masked"}]
    for query in ("SELECT id, note FROM shop.people", "SELECT p.id, p.note FROM shop.main.people p WHERE p.id > 0"):
        assert rows(ann, f"{query} ORDER BY id") == expected
    assert rows(ann, "SELECT count(*) AS n FROM shop.people WHERE note <> 'masked' OR score < 0") == [{"n": 0}]
    assert rows(admin, "SELECT count(*) AS n FROM shop.people WHERE score < 0") == [{"n": 1}]
    assert "tea" not in str(explained(ann, "SELECT note FROM shop.people"))
    admin.update("GRANT SELECT ON SCHEMA shop.main TO ann")
    assert rows(ann, "SELECT * FROM shop.hidden") == [{"secret_column": "top"}]
    admin.update("REFRESH DATABASE shop")
    assert rows(ann, "SELECT id, note FROM shop.people ORDER BY id") == expected


def test_the_filter_goes_out(file: Path, database: Database) -> None:
    """A row filter is part of the SELECT that the source gets."""
    admin = database.session()
    admin.update(f"ATTACH '{file}' AS shop")
    admin.update("GRANT SELECT ON shop.people TO ann")
    admin.update("CREATE ROW FILTER ON shop.people TO ann AS id = 3")
    source = database.catalog.store.attached.all["shop"].source()
    sent, before = list[str](), type(source).rows

    def noted(self: object, text: str) -> object:
        sent.append(text)
        return before(self, text)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(source), "rows", noted)
        assert rows(session_of(database, "ann"), "SELECT id FROM shop.people") == [{"id": 3}]
    assert sent == ['SELECT t."id" AS "c0" FROM "main"."people" AS t WHERE t."id" = 3']


def test_tables_are_read_again(file: Path, database: Database) -> None:
    """After the time to live, new tables are there, and gone ones are not."""
    session = database.session()
    session.update(f"ATTACH '{file}' AS shop (TTL_SECONDS 0)")
    sqlite_file(file, "CREATE TABLE later (a INT)", "DROP TABLE hidden", people=False)
    assert rows(session, "SELECT count(*) AS n FROM shop.later") == [{"n": 0}]
    assert "not found" in refused(session, "SELECT * FROM shop.hidden")


def test_wrong_options(database: Database) -> None:
    """A wrong option is told."""
    session = database.session()
    with pytest.raises(InvalidInputError, match="there is no type 'oracle': write type postgres"):
        session.update("ATTACH 'x' AS x (TYPE oracle)")
    with pytest.raises(InvalidInputError, match="the option ttl_seconds needs a number"):
        session.update("ATTACH 'x.sqlite' AS x (TTL_SECONDS soon)")
    with pytest.raises(PermissionDeniedError):
        session_of(database, "ann").update("ATTACH 'x' AS x (TYPE oracle)")
    with pytest.raises(FlightLLMError, match="EXPLAIN works only for"):
        session.update("EXPLAIN ATTACH 'x' AS x")


def test_a_failed_replacement_changes_nothing(file: Path, database: Database, tmp_path: Path) -> None:
    """The former database stays, with its grants, where the new one cannot be read."""
    session, ann = database.session(), session_of(database, "ann")
    session.update(f"ATTACH '{file}' AS shop")
    session.update("GRANT SELECT ON shop.people TO ann")
    wanted = rows(ann, "SELECT * FROM shop.people ORDER BY id")
    for address in ("postgresql://127.0.0.1:1/db", f"{tmp_path}/gone.sqlite"):
        assert "failed" in refused(session, f"ATTACH OR REPLACE '{address}' AS shop")
        assert rows(session, "SHOW DATABASES") == [{"database_name": "flightllm"}, {"database_name": "shop"}]
        assert rows(ann, "SELECT * FROM shop.people ORDER BY id") == wanted
    session.update(f"ATTACH OR REPLACE '{file}' AS shop")
    assert rows(session, "SELECT * FROM shop.people ORDER BY id") == wanted
    assert "not found" in refused(ann, "SELECT * FROM shop.people")
