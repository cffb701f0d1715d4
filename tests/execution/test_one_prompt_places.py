"""A call has the same prompt in a change, a view and another session as in a query: its text is that of the call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from flightllm.session.database import Database
from tests.databases import ask, open_database
from tests.execution.test_one_prompt import CALLS, NOTES

PLACES: Final = {
    "insert": ("INSERT INTO made SELECT id, {filter}, {score} FROM notes",),
    "insert sorted": ("INSERT INTO made SELECT id, {filter}, {score} FROM notes ORDER BY body LIMIT 7",),
    "create": ("CREATE TABLE created AS SELECT id, {twice}, {list} FROM notes",),
    "update": ("UPDATE copied SET kind = {classify} WHERE {other order}",),
    "delete": ("DELETE FROM copied WHERE NOT {filter}",),
    "merge": (
        "MERGE INTO copied c USING (SELECT id FROM notes WHERE {filter}) n ON c.id = n.id WHEN MATCHED THEN DELETE",
    ),
    "view": ("CREATE OR REPLACE VIEW seen AS SELECT id, {filter} AS f, {sentiment} AS s FROM notes", "seen"),
    "with": ("INSERT INTO made WITH k AS MATERIALIZED (SELECT {filter} AS f FROM notes) SELECT 1, f, 2 FROM k",),
}
"""Statements in which a call can stand, and the view that is read after them."""
SETTINGS: Final[Sequence[Mapping[str, str]]] = (
    {}, {"layout": "auto", "ordering": "rows"}, {"ordering": "greedy"}, {"layout": "fields"},
)  # fmt: skip
"""Settings of sessions; the last two make other prompts."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database on the fake engine, which logs its prompts."""
    folder = tmp_path_factory.mktemp("places")
    with closing(open_database(folder, {"log_path": str(folder / "log")})) as opened:
        for statement in (NOTES, "CREATE TABLE made (id BIGINT, f BOOLEAN, s DOUBLE)"):
            opened.session().update(statement)
        yield opened


def logged(database: Database) -> set[str]:
    """Return the prompts since the last look."""
    log = Path(str(database._services.config.engine.options["log_path"]))
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    log.write_text("", encoding="utf-8")
    return {json.loads(line)["prompt"] for line in lines}


@pytest.fixture(scope="module")
def alone(database: Database) -> set[str]:
    """Return the prompts of all calls, each asked by itself, row by row."""
    logged(database)
    for sql in CALLS.values():
        ask(database.session(), f"SELECT {sql} FROM notes", cache="off", optimizer="off")
    return logged(database)


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("place", PLACES)
def test_prompts_of_statements(database: Database, alone: set[str], place: str, optimizer: str) -> None:
    """A change or a view sends the prompts of its calls as a query of one call does."""
    session = database.session()
    session.update("CREATE OR REPLACE TABLE copied AS SELECT * FROM notes")
    statement, *views = PLACES[place]
    session.update("DROP TABLE IF EXISTS created")
    session.update(statement.format_map(CALLS), settings={"cache": "off", "optimizer": optimizer})
    for view in views:
        ask(session, f"SELECT * FROM {view}", cache="off", optimizer=optimizer)
    sent = logged(database)
    assert sent
    assert not sent - alone


def test_answers_of_other_sessions(database: Database) -> None:
    """A session whose cache has the answers of another one, under other settings, gets its own answers."""
    shared = set()
    pairs = [pair for other in range(1, len(SETTINGS)) for pair in ((0, other), (other, 0))]
    for number, (first, second) in enumerate(pairs):
        call = f"ai_score('How good is {number}?', verdict, body, kind)"
        sql = f"SELECT id, {call} AS score FROM notes WHERE id < 9 ORDER BY id"
        sent = []
        for settings in (SETTINGS[first], SETTINGS[second]):
            session = database.session()
            for name, value in settings.items():
                session.update(f"SET flightllm.{name} = '{value}'")
            found = ask(session, sql)
            sent.append(logged(database))
        expected = ask(session, sql, cache="off")
        assert found.rows == expected.rows, (SETTINGS[first], SETTINGS[second])
        assert sent[1] == logged(database) - sent[0]
        if not sent[1]:
            shared.add((first, second))
    assert shared == {(0, 1), (1, 0)}
