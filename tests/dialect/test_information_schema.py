"""Columns of `information_schema` with the values of the SQL standard."""

import pytest

from flightllm.dialect import rewrite
from flightllm.functions.internal import INTERNAL
from flightllm.functions.learned import DECISIONS
from flightllm.functions.own import OWN_PREFIX
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask
from tests.dialect.places import EMPTY

PLACES = [{"n": "person_id", "p": 1}, {"n": "thing", "p": 2}, {"n": "weight", "p": 3}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT column_name AS n, ordinal_position AS p FROM information_schema.columns WHERE table_name = 'likes'",
        'SELECT column_name n, c.ordinal_position p FROM "information_schema"."columns" c WHERE table_name = \'likes\'',
        """SELECT columns.column_name AS n, information_schema.columns.ordinal_position AS p
        FROM information_schema.tables JOIN flightllm.INFORMATION_SCHEMA.columns USING (table_schema, table_name)
        WHERE information_schema.columns.table_name = 'likes'""",
        """WITH c AS (SELECT * FROM information_schema.columns) SELECT column_name AS n, ordinal_position AS p FROM c
        WHERE table_name = 'likes'""",
    ],
)
def test_places(session: Session, sql: str) -> None:
    """Columns are counted from 1, for every way to name the table."""
    assert ask(session, f"{sql} ORDER BY p").rows == PLACES


def test_view_and_other_schema(session: Session) -> None:
    """A view over the table counts from 1 too, and so does a session with another schema."""
    sql = "SELECT column_name AS n, ordinal_position AS p FROM information_schema.columns WHERE table_name = 'likes'"
    session.update(f"CREATE VIEW places AS {sql}")
    assert ask(session, "SELECT * FROM places ORDER BY p").rows == PLACES
    session.update("CREATE SCHEMA other")
    session.update("USE other")
    assert ask(session, f"{sql} ORDER BY p").rows == PLACES
    session.update("USE public")


def test_places_in_changes(session: Session) -> None:
    """A change counts columns from 1 in its USING."""
    session.update("CREATE TABLE numbers AS SELECT * FROM (VALUES (0), (1)) q(i)")
    columns = "information_schema.columns WHERE table_name = 'likes' AND columns.ordinal_position = i"
    assert session.update(f"DELETE FROM numbers USING {columns}") == 1
    assert ask(session, "SELECT i FROM numbers").rows == [{"i": 0}]


def test_owner(session: Session) -> None:
    """A schema without an owner has NULL there."""
    found = ask(session, "SELECT schema_owner FROM information_schema.schemata WHERE schema_name = 'public'").rows
    assert found == [{"schema_owner": None}]


def test_views(session: Session) -> None:
    """Base tables are not among the views."""
    session.update("CREATE VIEW named AS SELECT name FROM people")
    sql = "SELECT table_name, definition FROM information_schema.views WHERE table_name IN ('named', 'people')"
    assert ask(session, sql).rows == [{"table_name": "named", "definition": None}]


def test_views_with_calls(session: Session) -> None:
    """A view with an AI call is a view, also one over another such view, one of another schema, and `SHOW VIEWS`."""
    session.update("CREATE VIEW asked AS SELECT id, ai_gen('Sum up', note) AS said FROM people")
    session.update("CREATE VIEW over_asked AS SELECT said FROM asked")
    session.update("CREATE SCHEMA IF NOT EXISTS far")
    session.update("CREATE VIEW far.asked AS SELECT ai_filter('Is it?', note) AS is_it FROM people")
    session.update("CREATE TABLE kept AS SELECT said FROM asked")
    names = "('asked', 'over_asked', 'kept', 'people')"
    sql = f"table_schema AS s, table_name AS n FROM information_schema.{{}} WHERE table_name IN {names} ORDER BY s, n"
    types = [tuple(row.values()) for row in ask(session, f"SELECT table_type AS t, {sql.format('tables')}").rows]
    assert types == [
        ("VIEW", "far", "asked"),
        ("VIEW", "public", "asked"),
        ("BASE TABLE", "public", "kept"),
        ("VIEW", "public", "over_asked"),
        ("BASE TABLE", "public", "people"),
    ]
    found = [tuple(row.values()) for row in ask(session, f"SELECT {sql.format('views')}").rows]
    assert found == [("far", "asked"), ("public", "asked"), ("public", "over_asked")]
    assert {"asked", "over_asked"} <= {row["table_name"] for row in ask(session, "SHOW VIEWS").rows}


def test_leaves_alone() -> None:
    """Other tables stay, and a rewritten text stays as it is."""
    other = "SELECT columns FROM information_schema.tables, s.columns"
    assert rewrite(ParsedText(other), EMPTY).text == other
    once = rewrite(ParsedText("SELECT * FROM information_schema.columns"), EMPTY).text
    assert once != "SELECT * FROM information_schema.columns"
    assert rewrite(ParsedText(once), EMPTY).text == once


@pytest.mark.parametrize(
    ("sql", "fewest"),
    [
        ("SHOW FUNCTIONS", 500),
        ("SHOW FUNCTIONS LIKE '%l%'", 100),
        ("SELECT * FROM system.functions", 0),
        ("SELECT * FROM pg_catalog.pg_proc", 300),
        ("SELECT * FROM information_schema.routines", 0),
        ("SELECT r.* FROM information_schema.routines r, likes", 400),
        ("SELECT information_schema.parameters.* FROM information_schema.parameters, likes", 1_000),
        ("SELECT * FROM datafusion.information_schema.routines", 400),
        ('SELECT specific_name FROM "datafusion"."information_schema"."parameters"', 1_000),
    ],
)
def test_functions_of_the_server(session: Session, sql: str, fewest: int) -> None:
    """No list has a function that only the server's own texts call; the others stay."""
    found = ask(session, sql).rows
    assert len(found) >= fewest
    assert [row for row in found for value in row.values() if str(value).startswith("__")] == []


def test_prefix() -> None:
    """The prefix of the hidden functions is that of each function which only the server calls."""
    names = [*(name for *_, name in INTERNAL), *(function.name for function in DECISIONS)]
    assert [name for name in names if not name.startswith(OWN_PREFIX)] == []
