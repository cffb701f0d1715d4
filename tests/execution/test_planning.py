"""How a query is run: as operators, untouched, or as batch functions; and what is wrong before it runs."""

import pytest

from flightllm.config.session_settings import Settings
from flightllm.errors import AICallError, SqlError
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.session.database import Database
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, explained

AI = "SELECT id, ai_gen('x', note) AS g FROM people WHERE ai_filter('y', name) AND score > 1 ORDER BY id LIMIT 2"


@pytest.mark.parametrize(
    ("sql", "settings", "kind"),
    [
        ("SELECT id FROM people", Settings(), PlainQuery),
        ("SELECT 'ai_gen(x)' FROM people", Settings(), PlainQuery),
        ("SELECT ai_count_tokens(note) FROM people", Settings(), PlainQuery),
        (AI, Settings(), StagedQuery),
        (AI, Settings(optimizer=False), BatchQuery),
        ("SELECT unnest(ai_classify(note, ['a', 'b'], multi => true)) FROM people", Settings(), BatchQuery),
    ],
)
def test_path(database: Database, sql: str, settings: Settings, kind: type) -> None:
    """Queries without AI calls go to DataFusion; with them, to operators unless they cannot or shall not."""
    assert type(plan(ParsedText(sql), database._services, settings)) is kind


@pytest.mark.parametrize("verb", ["EXPLAIN", "explain verbose", "DESCRIBE"])
def test_explain_makes_no_call(database: Database, session: Session, verb: str) -> None:
    """Explaining and planning ask the engine nothing."""
    before = database.engine.inner.sent  # type: ignore[attr-defined]
    if verb != "DESCRIBE":
        ask(session, f"{verb} SELECT ai_gen('unasked', note) FROM people")
    session.describe("SELECT ai_gen('unasked', note) FROM people")
    assert database.engine.inner.sent == before  # type: ignore[attr-defined]


def test_names(session: Session) -> None:
    """Result columns are named as the user wrote the calls; no name of ours is seen."""
    schema = session.describe("SELECT ai_gen('x', note), upper(ai_gen('x', note)), id FROM people").schema
    assert schema.names[0] == "ai_gen('x', note)"
    assert not any("__ai" in name for name in schema.names)
    text = str(explained(session, "SELECT ai_gen('x', note) FROM people"))
    assert "__ai" not in text


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT ai_filtr('x', note) FROM people", AICallError, "did you mean ai_filter"),
        ("SELECT ai_filter('{nope}', note) FROM people", AICallError, "nope"),
        ("SELECT ai_gen('x', nope) FROM people", SqlError, "nope"),
        ("SELECT ai_gen('x', note) FROM nowhere", SqlError, "nowhere"),
        ("SELECT ai_gen('x', note, model => 'other') FROM people", AICallError, "no model 'other'"),
        ("SELECT ai_gen('x', note, on_error => 'maybe') FROM people", AICallError, "on_error"),
        ("SELECT ai_gen() FROM people", AICallError, "prompt"),
        ("SELECT ai_classify(note, []) FROM people", AICallError, "label"),
        ("SELECT ai_extract(note, '{bad') FROM people", AICallError, "schema"),
        ("SELECT id FROM people WHERE ai_gen('x', note)", SqlError, r"non-boolean predicate 'ai_gen\(people.note\)'"),
        ("SELECT sum(ai_gen('x', note)) OVER FROM people", SqlError, "window"),
    ],
)
@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_wrong(session: Session, sql: str, error: type[Exception], message: str, optimizer: str) -> None:
    """What is wrong is said before anything runs, alike with the optimizer on and off."""
    with pytest.raises(error, match=message):
        session.execute(sql, settings={"optimizer": optimizer})
