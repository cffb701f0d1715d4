"""What is kept from a user and what does not exist: the same words, so that no name can be tried out."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from flightllm.access.store import User
from flightllm.errors import FlightLLMError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, open_database, rows

STATEMENTS = (
    "SELECT * FROM {name}",
    "SELECT * FROM public.{name}",
    "SELECT 1 FROM t JOIN {name} ON true",
    "WITH x AS (SELECT * FROM {name}) SELECT * FROM x",
    "SELECT (SELECT count(*) FROM {name}) AS c",
    "EXPLAIN SELECT * FROM {name}",
    "CREATE VIEW v AS SELECT * FROM {name}",
    "CREATE TABLE u AS SELECT * FROM {name}",
    "INSERT INTO t SELECT id FROM {name}",
    "INSERT INTO {name} VALUES (1)",
    "UPDATE {name} SET id = 2",
    "DELETE FROM {name}",
    "DROP TABLE {name}",
    "DROP TABLE IF EXISTS {name}",
    "DROP PROMPT {name}",
    "DROP PROMPT IF EXISTS {name}",
    "SELECT ai_gen(prompt => '{name}', s) FROM (SELECT 'x' AS s)",
    "SELECT ai_gen('Who?', 'x', model => '{name}')",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database whose admin has a table, a prompt and a model of the name `hidden`."""
    with closing(open_database(tmp_path_factory.mktemp("data"))) as database:
        admin = database.session()
        admin.update("CREATE TABLE hidden AS SELECT 1 AS id")
        admin.update("CREATE PROMPT hidden AS 'Who is {s}?'")
        admin.update("CREATE MODEL hidden OPTIONS (engine 'fake')")
        database.access.store.add_user(User("ann", "user"))
        admin.update("GRANT CREATE ON SCHEMA public TO ann")
        yield database


def said(session: Session, sql: str) -> tuple[str, str]:
    """Return the class and text of the error of a statement, or that there was none."""
    run: Callable[[], object] = (lambda: session.update(sql)) if session.is_update(sql) else (lambda: ask(session, sql))
    try:
        run()
    except FlightLLMError as error:
        return type(error).__name__, str(error)
    return "done", ""


@pytest.mark.parametrize("statement", STATEMENTS)
def test_hidden_or_missing(database: Database, statement: str) -> None:
    """A user gets one answer for both, whatever the statement; nothing of the admin's is changed."""
    ann = database.session(database.access.store.user("ann").principal)
    ann.update("CREATE OR REPLACE TABLE t AS SELECT 1 AS id")
    hidden, missing = (said(ann, statement.format(name=name)) for name in ("hidden", "absent"))
    assert missing == (hidden[0], hidden[1].replace("hidden", "absent"))
    assert ("IF EXISTS" in statement) == (hidden[0] == "done")
    admin = database.session()
    assert rows(admin, "SELECT id FROM hidden") == [{"id": 1}]
    assert rows(admin, "SELECT count(*) AS n FROM system.prompts") == [{"n": 1}]
