"""What DataFusion's errors lack: places in the text as it was sent, and names that may have been meant."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.database import Database
from tests.databases import ask, rows, small_database
from tests.servers import await_true


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database of small tables, and one whose names need double quotes."""
    database = small_database(tmp_path, {"latency_ms": 50.0})
    database.session().update('CREATE TABLE "Caps" AS SELECT 1 AS "Größe"')
    database.access.store.add_user(User("bob", "user"))
    yield database
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id,@, FROM people",
        "EXPLAIN SELECT id,@, FROM people",
        "CREATE TABLE t AS\nSELECT id\n,@,FROM people",
        "INSERT INTO likes SELECT id,@, FROM people",
        "INSERT INTO likes (thing) VALUES\n  ('a',@,1)",
        "SELECT ai_gen('Sum up', note),@, FROM people",
        "SELECT 1,@, ai_gen('Sum up', note) FROM people",
    ],
)
def test_places_of_syntax_errors(database: Database, sql: str) -> None:
    """They count in the statement as it was sent, whatever of it DataFusion was given; the @ marks the place."""
    before, _, after = sql.partition("@")
    place = f"Line: {before.count(chr(10)) + 1}, Column: {len(before) - before.rfind(chr(10))}$"
    session, sent = database.session(), before + after
    with pytest.raises(SqlError, match=place):
        session.update(sent) if session.is_update(sent) else ask(session, sent)


def test_temporary_tables(database: Database) -> None:
    """A table of the session is named as the session writes it."""
    session = database.session()
    session.update("CREATE TEMPORARY TABLE notes2 (a int)")
    with pytest.raises(SqlError, match=r"Did you mean notes2\?$"):
        ask(session, "SELECT * FROM notes3")
    session.close()


def test_no_wrong_place(database: Database) -> None:
    """Between two values put in for parameters, the place is not known, and none is said."""
    row = pa.RecordBatch.from_pydict({"a": ["x"], "b": [1]})
    with pytest.raises(SqlError, match=r"found: ,$"):
        ask(database.session(), "SELECT ?,, ?", row)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM peopel", r"Did you mean people\?$"),
        ("SELECT * FROM cap", r'Did you mean "Caps"\?$'),
        ('SELECT * FROM "caps"', r'Did you mean "Caps"\?$'),
        ("SELECT * FROM systm.queries", r"Did you mean system\.queries\?$"),
        ("SELECT * FROM xyz", "see SHOW TABLES$"),
        ('SELECT "größe" FROM "Caps"', r'Names in double quotes keep their case: write "Caps"\."Größe"\.'),
    ],
)
def test_names_that_may_be_meant(database: Database, sql: str, said: str) -> None:
    """An unknown table comes with one of nearly its name; a name that needs double quotes with these."""
    session = database.session()
    for wrong in (lambda: ask(session, sql), lambda: session.update(f"CREATE TABLE t AS {sql}")):
        with pytest.raises(SqlError, match=said):
            wrong()


def test_tables_of_others_are_not_suggested(database: Database) -> None:
    """Who may not read a table is not told that there is one of nearly the name."""
    bob = database.session(database.access.store.user("bob").principal)
    with pytest.raises(SqlError, match="see SHOW TABLES"):
        ask(bob, "SELECT * FROM peopel")


def test_a_suggestion_plans_no_view(database: Database) -> None:
    """Names alone are looked at, those of views too, whoever asks."""
    database.session().update("CREATE VIEW seen AS SELECT * FROM people")
    database.session().update("GRANT SELECT ON seen TO bob")
    bob = database.access.store.user("bob").principal
    for session in (database.session(), database.session(bob)):
        with pytest.raises(SqlError, match=r"Did you mean seen\?$"):
            ask(session, "SELECT * FROM seem")
        plans = [entry.plan.planned for entry in session._services.catalog.entries.values() if entry.kind == "view"]
        assert plans == [None]


def test_errors_of_a_user_who_is_gone(database: Database) -> None:
    """They are those of the statement, and its record ends."""
    bob = database.session(database.access.store.user("bob").principal)
    database.session().update("GRANT CREATE ON SCHEMA public TO bob")
    database._revocation.close()  # which would stop the statement first
    statement = "CREATE TABLE t AS SELECT arrow_cast(ai_gen('x'), 'Int64') AS a"
    ended: list[BaseException] = []

    def run() -> None:
        try:
            bob.update(statement)
        except FlightLLMError as error:
            ended.append(error)

    running = Thread(target=run)
    running.start()
    await_true(lambda: bool(database.engine.inner.sent))  # type: ignore[attr-defined]
    database.access.store.drop_user("bob")
    running.join()
    assert [type(error) for error in ended] == [SqlError]
    with pytest.raises(SqlError, match="SELEC"):
        bob.is_update("SELEC 1")
    failed = rows(database.session(), "SELECT sql FROM system.queries WHERE status = 'failed' AND \"user\" = 'bob'")
    assert sorted(row["sql"] for row in failed) == [statement, "SELEC 1"]


@pytest.mark.parametrize("name", ["reading", "stacked"])
def test_a_view_whose_table_is_gone(database: Database, name: str) -> None:
    """It is said to be a view that cannot be read, to who may read it; for others there is none."""
    session = database.session()
    bob = database.session(database.access.store.user("bob").principal)
    for sql in (
        "CREATE TABLE base AS SELECT 1 AS a",
        "CREATE VIEW reading AS SELECT a FROM base",
        "CREATE VIEW stacked AS SELECT a FROM reading",
        "GRANT SELECT ON base TO bob",
        "DROP TABLE base",
    ):
        session.update(sql)
    with pytest.raises(SqlError, match=f"the view '{name}' cannot be read"):
        ask(session, f"SELECT * FROM {name}")
    with pytest.raises(FlightLLMError) as raised:
        ask(bob, f"SELECT * FROM {name}")
    assert "the view" not in str(raised.value)
    session.update("CREATE TABLE base AS SELECT 2 AS a")
    assert ask(session, f"SELECT * FROM {name}").rows == [{"a": 2}]


@pytest.mark.parametrize("call", ["url_encode(name)", "json_contains(name, 'a')"])
def test_no_internal_names(database: Database, call: str) -> None:
    """A function of the server's own is never suggested."""
    with pytest.raises(SqlError, match="SHOW FUNCTIONS lists all functions"):
        ask(database.session(), f"SELECT {call} FROM people")


def test_names_of_other_servers(database: Database) -> None:
    """A similarity of another server has the expression to write."""
    with pytest.raises(SqlError, match=r"write 1 - cosine_distance\(a, b\)"):
        ask(database.session(), "SELECT array_cosine_similarity([1.0], [2.0])")
