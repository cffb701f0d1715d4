"""Functions made by SQL: calls stand for their expressions, with the rights of prompts, kept over a restart."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.errors import (
    AICallError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.storage.backup import back_up
from tests.databases import ask, explained, open_database, rows, small_database

TEA = "CREATE OR REPLACE FUNCTION is_tea AS ai_filter('Is {note} about tea?', {note}) WITH (accuracy = '.93', rows 200)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with small tables and the function `is_tea`."""
    database = small_database(tmp_path)
    database.session().update(TEA)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


@pytest.mark.parametrize(
    "call", ["is_tea(note)", "IS_TEA(note => note)", "(is_tea(lower(note)))", "is_tea(coalesce(note, name))"]
)
def test_same_as_its_expression(session: Session, call: str) -> None:
    """A call is the call of the expression, with the parameter's name as the field's name, in every clause."""
    value = call[call.index("(note => ") + 9 : -1] if "=>" in call else call.strip("(")[len("is_tea(") : -1].rstrip(")")
    value = f"{value})" if "(" in value else value
    whole = f"ai_filter('Is {{note}} about tea?', note => ({value}))"
    asked = ask(session, f"SELECT id, {whole} AS a FROM people ORDER BY id")
    for sql in ("SELECT id, {} AS a FROM people ORDER BY id", "SELECT id, a FROM (SELECT *, {} AS a FROM people)"):
        again = ask(session, sql.format(call))
        assert (sorted(again.rows, key=lambda row: row["id"]), again.calls) == (asked.rows, 0)
    kept = rows(session, f"SELECT id FROM people WHERE {call} ORDER BY id")
    assert [row["id"] for row in kept] == [row["id"] for row in asked.rows if row["a"]]


def test_expression_of_several_parameters(session: Session) -> None:
    """An expression is more than a call; arguments go by position and by name, and types can be declared."""
    session.update("CREATE FUNCTION good(x, least DOUBLE) AS ai_score('How good is {x}?', x) >= least")
    expected = rows(session, "SELECT ai_score('How good is {x}?', x => name) >= 5 AS g FROM people ORDER BY id")
    for call in ("good(name, 5)", "good(least => 5, x => name)", "good(name, least => 5)"):
        assert rows(session, f"SELECT {call} AS g FROM people ORDER BY id") == expected
    assert ask(session, "SELECT good(name, 5), NOT good(name, 5) FROM people").calls == 0


@pytest.mark.parametrize(
    "expression",
    [
        "extract(year FROM CAST(day AS DATE))",
        "substring({} FROM 2 FOR 3)",
        "position('t' IN {})",
        '{} COLLATE "C"',
        "CAST('2024-01-01' || left({}, 0) AS TIMESTAMP WITH TIME ZONE) IS NULL",
        "CASE WHEN {} > 'm' THEN {} END",
        "ARRAY[{}, 'a']",
        "{} IS DISTINCT FROM 'likes tea'",
    ],
)
def test_forms_of_expressions(session: Session, expression: str) -> None:
    """An expression of SQL means in a function what it means elsewhere; words of SQL are not its parameters."""
    wanted = rows(session, f"SELECT ai_filter('x', t => {expression.replace('{}', 'note')}) AS a FROM people")
    name = "day" if "day" in expression else "t"
    session.update(f"CREATE FUNCTION own AS ai_filter('x', t => {expression.replace('{}', 't')})")
    assert rows(session, "SELECT parameters FROM system.functions WHERE name = 'own'") == [{"parameters": name}]
    asked = ask(session, f"SELECT own({'day' if name == 'day' else 'note'}) AS a FROM people")
    assert (asked.rows, asked.calls) == (wanted, 0)


def test_names_that_stay(session: Session) -> None:
    """A parameter with the name of a unit or a type is replaced where it is a column, and nowhere else."""
    session.update("CREATE FUNCTION own(year DATE) AS ai_filter('x', t => extract(year FROM year))")
    wanted = rows(session, "SELECT ai_filter('x', t => extract(year FROM day)) AS a FROM people")
    assert rows(session, "SELECT own(day) AS a FROM people") == wanted


def test_other_kind(session: Session) -> None:
    """DROP FILTER and ALTER FILTER say that a name is that of a function."""
    with pytest.raises(InvalidInputError, match="'is_tea' is a function: write DROP FUNCTION"):
        session.update("DROP FILTER IF EXISTS is_tea")
    with pytest.raises(InvalidInputError, match="'is_tea' is a function: only a filter is fitted again"):
        session.update("ALTER FILTER is_tea REFIT")


def test_where_statements_have_calls(session: Session) -> None:
    """Joins, aggregates, views, changes of rows and prepared statements take a function's call."""
    kept = {row["id"] for row in rows(session, "SELECT id FROM people WHERE is_tea(note)")}
    assert rows(session, "SELECT count(*) FILTER (WHERE is_tea(note)) AS n FROM people") == [{"n": len(kept)}]
    session.update("CREATE VIEW tea AS SELECT id, is_tea(note) AS t FROM people")
    assert {row["id"] for row in rows(session, "SELECT id FROM tea WHERE t")} == kept
    joined = "SELECT DISTINCT p.id FROM people p JOIN likes l ON p.id = l.person_id AND is_tea(p.note)"
    assert {row["id"] for row in rows(session, joined)} <= kept
    assert session.describe("SELECT is_tea(note) AS a FROM people WHERE id > $1").schema.names == ["a"]
    assert session.update("UPDATE people SET flag = NULL WHERE is_tea(note)") == len(kept)
    assert session.update("DELETE FROM people WHERE is_tea(note)") == len(kept)


def test_views_follow(session: Session) -> None:
    """A view calls the function as it is now, and says so when it is gone."""
    session.update("CREATE VIEW tea AS SELECT id, is_tea(note) AS t FROM people")
    session.update("CREATE OR REPLACE FUNCTION is_tea AS ai_filter('Is {note} wet?', note)")
    assert ask(session, "SELECT * FROM tea").record.call_rows()[0]["text"] == "is_tea(note)"
    assert ask(session, "SELECT ai_filter('Is {note} wet?', note) FROM people").calls == 0
    session.update("DROP FUNCTION is_tea")
    with pytest.raises(FlightLLMError, match="is_tea"):
        ask(session, "SELECT * FROM tea")


def test_shown(session: Session) -> None:
    """EXPLAIN has the call and its prompt; the list has the expression, the figures and a version that only grows."""
    told = "\n".join(explained(session, "SELECT id FROM people WHERE is_tea(note)").values())
    assert "is_tea(note)" in told
    assert "Is `note` about tea?" in told
    assert ask(session, "SELECT is_tea(note) FROM people").table.column_names == ["is_tea(note)"]
    [listed] = rows(session, "SHOW USER FUNCTIONS")
    assert (listed["name"], listed["parameters"], listed["returns"], listed["version"]) == (
        "is_tea",
        "note",
        "BOOLEAN",
        1,
    )
    assert listed["expression"] == "ai_filter('Is {note} about tea?', note)"
    assert json.loads(listed["figures"]) == {"accuracy": ".93", "rows": 200}
    session.update("DROP FUNCTION is_tea")
    session.update(TEA)
    session.update("CREATE FUNCTION IF NOT EXISTS is_tea AS ai_filter('x', note)")
    assert rows(session, "SELECT version, expression FROM system.functions") == [
        {"version": 2, "expression": listed["expression"]}
    ]
    assert session.describe("SELECT proname FROM pg_catalog.pg_proc").schema.names == ["proname"]
    assert {"proname": "is_tea"} in rows(session, "SELECT proname FROM pg_catalog.pg_proc")


def test_kept(database: Database, tmp_path: Path) -> None:
    """A backup and a restart keep functions."""
    assert back_up(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy") == []
    copy = open_database(tmp_path.parent / f"{tmp_path.name}-copy")
    shown = [rows(one.session(), "SELECT * FROM system.functions") for one in (database, copy)]
    assert shown[0] == shown[1]
    copy.session().update("DROP FUNCTION is_tea")
    copy.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("is_tea()", "missing argument note. Usage: is_tea"),
        ("is_tea(note, name)", "too many arguments. Usage: is_tea"),
        ("is_tea(nope => note)", "unknown parameter nope. Usage: is_tea"),
        ("is_tea(note => note, note => name)", "note is given twice"),
        ("is_tea(people.*)", "has no single value"),
    ],
)
def test_wrong_call(session: Session, call: str, message: str) -> None:
    """A wrong call says where it is, and how to write it."""
    with pytest.raises(AICallError, match=f"is_tea at 1:8: .*{message}"):
        ask(session, f"SELECT {call} FROM people")


@pytest.mark.parametrize(
    ("name", "expression", "error", "message"),
    [
        ("is_tea", "ai_filter('x', note)", InvalidInputError, "exists: write CREATE OR REPLACE FUNCTION"),
        *(
            (name, "ai_filter('x', t)", InvalidInputError, "a name of SQL")
            for name in ("lower", "llm", "ai_new", "cast")
        ),
        ('"Big"', "ai_filter('x', t)", InvalidInputError, "lower case"),
        ("again", "again(t)", AICallError, "calls again itself"),
        ("other", "is_tea(t)", AICallError, "calls the function is_tea"),
        ("plain", "lower(t)", AICallError, "no call of an AI function"),
        ("f", "ai_filter('x {notes}', note)", AICallError, "the prompt names {notes}"),
        ("f", "ai_filter('x', t, model => absent)", AICallError, "there is no model 'absent'"),
        ("f", "ai_filter('x', nofunction(t))", FlightLLMError, "nofunction"),
        ("f", "ai_filter('x', *)", AICallError, "needs a FROM clause"),
    ],
)
def test_wrong_function(session: Session, name: str, expression: str, error: type[Exception], message: str) -> None:
    """CREATE refuses a name that is taken and an expression that cannot run, and stores nothing; EXPLAIN says so."""
    before = rows(session, "SELECT * FROM system.functions")
    with pytest.raises(error, match=message):
        session.update(f"CREATE FUNCTION {name} AS {expression}")
    with pytest.raises(error, match=message):
        rows(session, f"EXPLAIN CREATE FUNCTION {name} AS {expression}")
    assert rows(session, "SELECT * FROM system.functions") == before


def test_explained_function_is_not_created(session: Session) -> None:
    """EXPLAIN CREATE FUNCTION tells the type, asks no model, and creates nothing."""
    for body, returns in (("ai_filter('x')", "BOOLEAN"), ("ai_score('How good is {t}?', {t})", "DOUBLE")):
        asked = ask(session, f"EXPLAIN CREATE FUNCTION f AS {body} WITH (accuracy = .9)")
        told = {row["plan_type"]: row["plan"] for row in asked.rows}
        assert (told["change"], told["returns"]) == ("CREATE FUNCTION: EXPLAIN changes nothing", returns)
        assert asked.calls == 0
    assert len(rows(session, "SELECT name FROM system.functions")) == 1
    with pytest.raises(UnsupportedError, match="EXPLAIN ANALYZE would run the CREATE FUNCTION"):
        rows(session, "EXPLAIN ANALYZE CREATE FUNCTION f AS ai_filter('x')")


def test_rights(database: Database, session: Session) -> None:
    """Others need a grant for the function, which PostgreSQL calls EXECUTE, and the right to its model."""
    for name, role in (("bob", "user"), ("eve", "readonly")):
        database.access.store.add_user(User(name, role))  # type: ignore[arg-type]
    session.update("GRANT SELECT ON people TO bob")
    bob, eve = (database.session(database.access.store.user(name).principal) for name in ("bob", "eve"))
    sql = "SELECT is_tea(note) FROM people"
    with pytest.raises(
        PermissionDeniedError, match=r"no USAGE on function 'is_tea'.*GRANT USAGE ON FUNCTION is_tea TO bob"
    ):
        ask(bob, sql)
    assert rows(bob, "SHOW USER FUNCTIONS") == []
    session.update("GRANT EXECUTE ON FUNCTION is_tea(text) TO bob")
    assert ask(bob, sql).table.num_rows == 9
    assert len(rows(bob, "SHOW USER FUNCTIONS")) == 1
    with pytest.raises(PermissionDeniedError, match="owner or an admin"):
        rows(bob, f"EXPLAIN {TEA}")
    for statement in (TEA, "DROP FUNCTION is_tea"):
        with pytest.raises(PermissionDeniedError, match="can only be changed by its owner or an admin"):
            bob.update(statement)
        with pytest.raises(PermissionDeniedError, match="requires the role user or admin"):
            eve.update(statement)
    session.update("REVOKE USAGE ON MODEL default FROM user")
    with pytest.raises(PermissionDeniedError, match="no USAGE on model 'default'"):
        ask(bob, sql)
    session.update("DROP FUNCTION is_tea")
    assert rows(session, "SELECT * FROM system.grants WHERE kind = 'FUNCTION'") == []
    bob.update("DROP FUNCTION IF EXISTS is_tea")
    with pytest.raises(NotFoundError, match="no function 'is_tea': see SHOW USER FUNCTIONS"):
        bob.update("DROP FUNCTION is_tea")
    with pytest.raises(NotFoundError, match="no function 'is_tea'"):
        session.update("GRANT USAGE ON FUNCTION is_tea TO bob")
