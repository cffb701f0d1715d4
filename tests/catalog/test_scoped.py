"""The catalog of a statement: the tables of one moment, and no tables of others for a restricted principal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flightllm.access.rights import Rights
from flightllm.access.store import AccessSnapshot, User
from flightllm.catalog import Catalog
from flightllm.catalog.closing import closed
from flightllm.catalog.scoped import SHARED, PrincipalScopes, ScopedCatalog
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import PermissionDeniedError
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import open_database, rows

WITHHELD = {"close", "open_file", "open_attached", "register_opened", "create_external"}
"""Methods of the catalog that no statement of a user reaches; a new one is here, in `SHARED`, or written anew."""
ROWS = [{"a": "A1", "b": "B1"}, {"a": "A2", "b": "B2"}]
AI = "ai_gen('x {a}', a) AS g"
QUERIES = {
    "plain": ("SELECT * FROM t ORDER BY a", "on"),
    "plain join": ("SELECT t.* FROM t FULL JOIN u ON t.a = u.a WHERE t.a IS NOT NULL ORDER BY a", "on"),
    "plain view": ("SELECT * FROM v ORDER BY a", "on"),
    "operators": (f"SELECT a, b, {AI} FROM t WHERE b <> 'C' ORDER BY a", "on"),
    "star": (f"SELECT *, {AI} FROM t ORDER BY a", "on"),
    "join": ("SELECT t.a, t.b, ai_gen('x {a}', t.a) AS g FROM t JOIN u ON t.a = u.a ORDER BY t.a", "on"),
    "filter": ("SELECT * FROM t WHERE ai_filter('x {a}', a) IS NOT NULL ORDER BY a", "on"),
    "view": (f"SELECT *, {AI} FROM v ORDER BY a", "on"),
    "AI view": ("SELECT * FROM w ORDER BY a", "on"),
    "batch functions": (f"SELECT *, {AI} FROM t ORDER BY a", "off"),
    "AI view, batch functions": ("SELECT * FROM w ORDER BY a", "off"),
}
CHANGES = {
    "swapped": "CREATE OR REPLACE TABLE t AS SELECT b AS a, a AS b FROM u",
    "renamed": "CREATE OR REPLACE TABLE t AS SELECT b AS a, a AS b, 1 AS c FROM u",
    "fewer columns": "CREATE OR REPLACE TABLE t AS SELECT 1 AS z",
    "dropped": "DROP TABLE t",
    "deleted": "DELETE FROM t WHERE a = 'A1'",
    "another view": "CREATE OR REPLACE VIEW v AS SELECT b AS a, a AS b FROM u",
}


def test_every_method_was_thought_about() -> None:
    """Each public method of the catalog is restricted, withheld or shared on purpose; the lists have no other names."""
    public = {name for name in vars(Catalog) if not name.startswith("_")}
    own = {name for name in vars(ScopedCatalog) if not name.startswith("_")}
    refusing = {name for name in own if (getattr(vars(ScopedCatalog)[name], "__doc__", "") or "").startswith("Refuse")}
    assert public - own == SHARED
    assert refusing == WITHHELD


def test_a_new_method_is_refused() -> None:
    """One that the catalog gets later, and nobody has thought about, does nothing for a restricted principal."""

    class Wider(Catalog):
        def read_everything(self) -> str:
            return "all rows"

    @closed(shared={"reading"})
    class Narrow(Wider):
        def __init__(self) -> None:
            pass

    with pytest.raises(PermissionDeniedError, match="only admins can do this"):
        Narrow().read_everything()
    with pytest.raises(PermissionDeniedError, match="only admins can do this"):
        Narrow().ingest("t", None, [])
    assert Narrow.reading is Catalog.reading


def test_what_is_withheld(tmp_path: Path) -> None:
    """A restricted principal's catalog neither closes the server's nor registers files."""
    catalog = Catalog(LimitsConfig(), None, tmp_path)
    mine = PrincipalScopes(catalog).of(Rights.of(Principal("ann", "user"), AccessSnapshot()))
    for call in (mine.close, lambda: mine.open_file("t", tmp_path)):
        with pytest.raises(PermissionDeniedError, match="only admins can do this"):
            call()
    assert catalog.tables() == []
    catalog.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of two tables, a view, and one with AI calls."""
    database = open_database(tmp_path)
    session = database.session()
    for table in "tu":
        session.update(f"CREATE TABLE {table} AS SELECT * FROM (VALUES ('A1', 'B1'), ('A2', 'B2')) AS x(a, b)")
    session.update("CREATE VIEW v AS SELECT * FROM t")
    session.update(f"CREATE VIEW w AS SELECT *, {AI} FROM t")
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session of somebody who may everything."""
    return database.session()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(("sql", "optimizer"), QUERIES.values(), ids=QUERIES)
def test_a_planned_query_keeps_its_tables(session: Session, sql: str, optimizer: str, change: str) -> None:
    """A query planned before its table is changed returns the table as it was, under the columns it was told with."""
    result = session.execute(sql, None, {"optimizer": optimizer})
    session.update(change)
    table = pa.Table.from_batches(list(result.batches), result.schema)
    assert table.select(["a", "b"]).to_pylist() == ROWS


def test_somebody_who_is_no_admin(database: Database, session: Session) -> None:
    """What a query of a user with grants was planned on is kept likewise."""
    database.access.store.add_user(User("bob", "user"))
    session.update("GRANT SELECT ON TABLE t TO bob")
    result = database.session(Principal("bob", "user")).execute(f"SELECT *, {AI} FROM t ORDER BY a")
    session.update(CHANGES["swapped"])
    found: list[dict[str, Any]] = pa.Table.from_batches(list(result.batches), result.schema).to_pylist()
    assert [(row["a"], row["b"]) for row in found] == [("A1", "B1"), ("A2", "B2")]


def test_each_statement_sees_the_changes_before_it(session: Session) -> None:
    """Schemas, tables and rows that are there when a statement begins are what it sees."""
    session.update("CREATE SCHEMA s")
    assert "s" in {row["schema_name"] for row in rows(session, "SELECT * FROM information_schema.schemata")}
    session.update("CREATE TABLE s.t AS SELECT 1 AS a")
    session.update("INSERT INTO s.t SELECT a + 1 FROM s.t")
    assert rows(session, "SELECT * FROM s.t ORDER BY a") == [{"a": 1}, {"a": 2}]


def test_columns_are_those_of_the_moment(database: Database, session: Session) -> None:
    """Metadata, revisions and AI views of one catalog agree with each other, also after a change."""
    with database.catalog.reading():
        before = database.catalog_of(session.principal)
        known = (
            before.table("t"),
            before.revision(before.table("t").name),
            before.inline_views(ParsedText("SELECT * FROM w")).sql,
        )
        for change in (CHANGES["fewer columns"], "DROP VIEW w"):
            session.update(change)
        assert (
            before.table("t"),
            before.revision(known[0].name),
            before.inline_views(ParsedText("SELECT * FROM w")).sql,
        ) == known
        for name in ("t", "v"):
            assert before.columns_of(name) == ["a", "b"]
            assert before.context().sql(f"SELECT a FROM {name} ORDER BY a").to_pydict() == {"a": ["A1", "A2"]}
    assert database.catalog_of(session.principal).columns_of("t") == ["z"]
