"""Prompts made by SQL: named in calls, versioned, kept over a restart."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import AICallError, FlightLLMError, NotFoundError, PermissionDeniedError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database, rows, small_database

ONE, TWO = "Is {note} about food?", "Is {note} about drinks?"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with small tables and two versions of the prompt `food`."""
    database = small_database(tmp_path)
    for text in (ONE, TWO):
        database.session().update(f"CREATE OR REPLACE PROMPT food AS '{text}'")
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Session:
    """Return a session on it."""
    return database.session()


@pytest.mark.parametrize("function", ["ai_filter", "ai_gen", "ai_score", "llm", "ai_if"])
@pytest.mark.parametrize(
    ("named", "text"),
    [("food", TWO), ("'food'", TWO), ('"food"', TWO), ("FOOD", TWO), ("'food@2'", TWO), ("'food@1'", ONE)],
)
def test_used(session: Session, function: str, named: str, text: str) -> None:
    """A name stands for its text, wherever in the arguments; it is the same call as with the text in its place."""
    calls = (
        f"{function}('{text}', note)",
        f"{function}(note, prompt => {named})",
        f"{function}(prompt => {named}, note)",
        f"{function}(prompt => {named}, note => note, max_tokens => NULL)",
    )
    ran = ask(session, f"SELECT {', '.join(f'{call} AS c{place}' for place, call in enumerate(calls))} FROM people")
    assert ran.calls == 4
    assert len(ran.record.call_rows()) == 1


def test_texts_stay_texts(session: Session) -> None:
    """A text that is no name is itself the prompt, given by name too; one given by position always is."""
    sql = "SELECT ai_gen('food', note) AS a, ai_gen(prompt => 'food of {note}', note) AS b FROM people"
    assert ask(session, sql).calls == 8
    column = "SELECT ai_gen(prompt => people.note) FROM people"
    assert ask(session, column).calls == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "ai_filter(note, prompt => fod)",
            r"at 1:8: there is no prompt 'fod'; did you mean 'food'\? A single word after",
        ),
        ("ai_filter(note, prompt => 'drinks')", "no prompt 'drinks'; there are: food. A single word after prompt =>"),
        ("ai_filter(note, prompt => 'food@3')", "the prompt 'food' has no version 3; it has 1, 2"),
        ("ai_filter(note, prompt => name)", "no prompt 'name'"),
        ("ai_filter(notes => name, prompt => food)", r"names \{note\}, which is not a field of .* \(fields: notes\)"),
        ("ai_filter('Is it?', prompt => food)", "prompt is given twice"),
        ("ai_filter(prompt => food, prompt => food)", "prompt is given twice"),
        ("ai_sentiment(note, prompt => food)", "unknown option prompt"),
    ],
)
def test_wrong(session: Session, call: str, message: str) -> None:
    """A name that is none, or does not fit, is an error that says what to write."""
    with pytest.raises(AICallError, match=message):
        ask(session, f"SELECT {call} FROM people")


def test_shown(session: Session) -> None:
    """SHOW PROMPTS lists every version."""
    shown = rows(session, "SHOW PROMPTS")
    assert [(row["name"], row["version"], row["text"], row["owner"]) for row in shown] == [
        ("food", 1, ONE, "local"),
        ("food", 2, TWO, "local"),
    ]
    assert list(shown[0]) == ["name", "version", "text", "created", "owner"]


def test_kept_over_a_restart(tmp_path: Path, database: Database) -> None:
    """All versions are there after a restart; what was dropped is not, and its numbers are not used again."""
    database.session().update("CREATE PROMPT gone AS 'x y'")
    database.session().update("DROP PROMPT gone")
    database.close()
    again = open_database(tmp_path)
    session = again.session()
    assert len(rows(session, "SHOW PROMPTS")) == 2
    with pytest.raises(NotFoundError, match="no prompt 'gone'"):
        session.update("DROP PROMPT gone")
    session.update("DROP PROMPT IF EXISTS gone")
    session.update("CREATE PROMPT gone AS 'y z'")
    assert rows(session, "SELECT version FROM system.prompts WHERE name = 'gone'") == [{"version": 2}]
    again.close()


def test_created_once(session: Session) -> None:
    """Without OR REPLACE a name is used once; IF NOT EXISTS leaves what is there."""
    with pytest.raises(FlightLLMError, match="'food' exists: write CREATE OR REPLACE PROMPT, or IF NOT EXISTS"):
        session.update("CREATE PROMPT food AS 'x'")
    session.update("CREATE PROMPT IF NOT EXISTS food AS 'x'")
    assert len(rows(session, "SHOW PROMPTS")) == 2
    with pytest.raises(FlightLLMError, match="is empty"):
        session.update("CREATE PROMPT nothing AS ' '")


def test_in_views(session: Session) -> None:
    """A view keeps the name, so it takes the newest version; one with a number stays as it is."""
    session.update("CREATE VIEW newest AS SELECT ai_filter(note, prompt => food) AS f FROM people")
    session.update("CREATE VIEW first AS SELECT ai_filter(note, prompt => 'food@1') AS f FROM people")
    assert ask(session, "SELECT f FROM newest").calls == ask(session, "SELECT f FROM first").calls == 4
    session.update("CREATE OR REPLACE PROMPT food AS 'Is {note} about anything?'")
    assert ask(session, "SELECT f FROM newest").calls == 4
    assert ask(session, "SELECT f FROM first").cache_hits == 4
    session.update("DROP PROMPT food")
    with pytest.raises(AICallError, match="no prompt 'food'"):
        ask(session, "SELECT f FROM newest")


def test_in_prepared_statements(session: Session) -> None:
    """A parameter may be the name of a prompt, or its text; the text of a new prompt may be one too."""
    sql = "SELECT ai_filter(note, prompt => ?) AS f FROM people"
    assert session.describe(sql).schema.field("f").type == pa.bool_()
    for value, calls in (("food", 4), ("food@2", 0), (TWO, 0), (ONE, 4)):
        values = pa.RecordBatch.from_arrays([pa.array([value])], names=["1"])
        assert ask(session, sql, values).calls == calls
    session.update("CREATE PROMPT bound AS ?", pa.table({"1": ["It's {note}?"]}))
    assert rows(session, "SELECT text FROM system.prompts WHERE name = 'bound'") == [{"text": "It's {note}?"}]


def test_with_models_lists_and_stars(session: Session) -> None:
    """Names go with everything else that a call takes."""
    session.update("CREATE MODEL fast OPTIONS (engine 'fake')")
    session.update("CREATE PROMPT rate AS 'Rate {note} and {name}.'")
    assert ask(session, "SELECT ai_score(people.*, prompt => rate, model => fast, high => 5) FROM people").calls == 9
    assert ask(session, "SELECT ai_complete(fast, prompt => 'food', note => note) FROM people").calls == 4
    lists = "SELECT ai_gen(note => array_agg(note), prompt => food) AS g FROM people GROUP BY name"
    assert ask(session, lists).table.num_rows == 6
    told = ask(session, "EXPLAIN SELECT ai_filter(note, prompt => food) FROM people").rows
    assert any("ai_filter(note, prompt => food)" in row["plan"] for row in told)


@pytest.fixture
def ann(database: Database) -> Session:
    """Return the session of a user."""
    database.access.store.add_user(User("ann", "user"))
    return database.session(Principal("ann", "user"))


def test_who_may_change(database: Database, ann: Session) -> None:
    """Users make prompts and change their own; those who only read make none."""
    for name, role in (("bob", "user"), ("eve", "readonly"), ("root", "admin")):
        database.access.store.add_user(User(name, role))  # type: ignore[arg-type]
    bob, eve, root = (database.session(database.access.store.user(name).principal) for name in ("bob", "eve", "root"))
    ann.update("CREATE PROMPT hers AS 'x y'")
    ann.update("CREATE OR REPLACE PROMPT hers AS 'x z'")
    refused = (
        ("CREATE OR REPLACE PROMPT hers AS 'z'", PermissionDeniedError, "can only be changed by its owner or an admin"),
        ("DROP PROMPT hers", NotFoundError, "there is no prompt 'hers'"),  # none that bob may know of
    )
    for sql, kind, words in refused:
        with pytest.raises(kind, match=words):
            bob.update(sql)
        with pytest.raises(PermissionDeniedError, match="PROMPT requires the role user or admin"):
            eve.update(sql)
    bob.update("CREATE PROMPT IF NOT EXISTS hers AS 'z'")
    root.update("CREATE OR REPLACE PROMPT hers AS 'z z'")
    assert len(rows(ann, "SHOW PROMPTS")) == 3, "what an admin changes stays hers"
    assert rows(bob, "SHOW PROMPTS") == []
    ann.update("DROP PROMPT hers")


@pytest.mark.parametrize("route", ["{}", "EXPLAIN {}", "SELECT * FROM ({}) AS t", "CREATE VIEW v AS {}"])
@pytest.mark.parametrize(
    ("call", "grant"),
    [("ai_gen('x', 'y', model => fast)", "MODEL fast"), ("ai_gen(prompt => food)", "PROMPT food")],
)
def test_who_may_use(database: Database, ann: Session, route: str, call: str, grant: str) -> None:
    """What is not granted is refused on every route, before anything is asked; names are not told."""
    admin = database.session()
    admin.update("CREATE MODEL fast OPTIONS (engine 'fake')")
    admin.update("CREATE OR REPLACE PROMPT food AS 'Is it?'")
    admin.update("GRANT ALL ON SCHEMA public TO ann")
    sql = route.format(f"SELECT {call} AS g")
    run = ann.update if ann.is_update(sql) else partial(ask, ann)
    with pytest.raises(PermissionDeniedError, match=f"'ann' .* has no USAGE on .*GRANT USAGE ON {grant} TO ann"):
        run(sql)
    if not ann.is_update(sql):
        with pytest.raises(PermissionDeniedError):
            ann.describe(sql)
    with pytest.raises(PermissionDeniedError, match="no USAGE on model 'x', or it does not exist") as caught:
        ask(ann, "SELECT ai_gen('x', 'y', model => x)")
    assert "fast" not in str(caught.value)
    with pytest.raises(PermissionDeniedError, match="no USAGE on prompt 'foo', or it does not exist") as caught:
        ask(ann, "SELECT ai_gen(prompt => foo)")
    assert "food" not in str(caught.value)
    admin.update(f"GRANT USAGE ON {grant} TO ann")
    run(sql)


def test_own_model_is_granted_as_default(database: Database, ann: Session) -> None:
    """The server's own model is for everybody, until that is revoked; it is shown under the name that grants use."""
    assert [row["name"] for row in rows(ann, "SELECT name FROM system.models")] == ["default"]
    for model in ("", ", model => default", ", model => demo"):
        assert len(rows(ann, f"SELECT ai_gen('x', 'y'{model})")) == 1
    database.session().update("REVOKE USAGE ON MODEL default FROM user")
    with pytest.raises(PermissionDeniedError, match="model 'default'"):
        ask(ann, "SELECT ai_gen('x', 'y')")
