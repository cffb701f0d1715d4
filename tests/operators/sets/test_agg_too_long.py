"""Prompts of an aggregate that an endpoint refuses, because its tokenizer counts more than ours."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.errors import AnswerError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.batch_endpoint import BatchProvider, batch_provider
from tests.databases import ask
from tests.servers import await_true

ROOM = 180
"""The words of a prompt for which the endpoint has room. Ours counts a token for about four characters."""
CALL = "ai_agg(t, 'What?', context_tokens => 800, max_tokens => 20, on_error => '{}')"


def refusal(prompt: str) -> tuple[int, str] | None:
    """Refuse a long prompt as OpenAI's API does."""
    words = len(prompt.split())
    said = f"This model's maximum context length is {ROOM} tokens. However, your messages resulted in {words} tokens."
    return (400, said) if words > ROOM else None


@pytest.fixture(scope="module")
def provider() -> Iterator[BatchProvider]:
    """Run the endpoint."""
    with batch_provider(fails=refusal) as provider:
        yield provider


@pytest.fixture(scope="module")
def database(provider: BatchProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Open a database whose group 1 has one row that is too long by itself."""
    options = {"base_url": provider.url, "provider": "openai", "api_key_env": ""}
    config = Config(engine=EngineConfig("openai", "gpt-test", 8, options), data_folder=tmp_path_factory.mktemp("long"))
    database = Database.open(config)
    database.session().update(
        """CREATE TABLE many AS SELECT value AS id, value % 2 AS g, CASE WHEN value = 1 THEN repeat('a b ', 300)
            ELSE 'I say ' || value || ' to it ' || repeat('x y ', value % 7) END AS t FROM generate_series(1, 120)"""
    )
    yield database
    database.close()


@pytest.fixture
def session(database: Database, provider: BatchProvider) -> Session:
    """Return a session without kept answers, and count anew."""
    database.session().update("TRUNCATE system.cache")
    provider.chats = Counter()
    return database.session()


def test_a_leaf_is_asked_in_parts(session: Session, provider: BatchProvider) -> None:
    """A refused prompt is asked in two parts, no text is lost, and nothing is bought twice."""
    ran = ask(session, f"SELECT {CALL.format('null')} AS a FROM many WHERE g = 0")
    assert ran.rows[0]["a"] is not None
    assert set(provider.chats.values()) == {1}
    assert all(len(prompt.split()) <= ROOM for prompt in provider.chats)
    told = "\n".join(provider.chats)
    assert all(f"I say {number} to it" in told for number in range(2, 121, 2))
    assert ran.calls > provider.chats.total()


def test_a_rerun_asks_nothing(session: Session, provider: BatchProvider) -> None:
    """Neither a refused prompt nor its parts are sent again, and EXPLAIN knows it."""
    sql = f"SELECT g, {CALL.format('struct')} AS a FROM many WHERE id > 1 GROUP BY g ORDER BY g"
    before = ask(session, sql)
    bought = provider.chats.total()
    assert json.loads(ask(session, f"EXPLAIN (FORMAT json) {sql}").rows[0]["plan"])["total"]["predicted"]["calls"] == 0
    again = ask(session, sql)
    assert (again.calls, again.rows) == (0, before.rows)
    assert provider.chats.total() == bought


def test_a_new_row_buys_few_parts(session: Session, provider: BatchProvider) -> None:
    """Parts are cut by content, so most of them stay as they were."""
    counts = []
    for more in range(5):
        rows = f"SELECT t FROM many WHERE g = 0 UNION ALL SELECT 'I say {more}777 to it' WHERE {more} > 0"
        before = provider.chats.total()
        ask(session, f"SELECT {CALL.format('null')} AS a FROM ({rows}) q")
        counts.append(provider.chats.total() - before)
    assert sorted(counts[1:])[1] < counts[0] / 2


def test_a_row_that_is_too_long_by_itself(session: Session) -> None:
    """Only its group fails, and the error says what to write."""
    even, odd = (row["a"] for row in ask(session, f"SELECT g, {CALL.format('struct')} AS a FROM many GROUP BY g").rows)
    if even["error"]:
        even, odd = odd, even
    assert even["value"]
    assert "maximum context length" in odd["error"]
    assert "write context_tokens => 400" in odd["error"]
    assert ask(session, f"SELECT {CALL.format('null')} AS a FROM many WHERE g = 1").rows == [{"a": None}]


def test_where_a_failure_ends_the_query(session: Session, provider: BatchProvider) -> None:
    """With `on_error => 'fail'`, parts are asked too, and a row that is too long by itself ends the query."""
    assert ask(session, f"SELECT {CALL.format('fail')} AS a FROM many WHERE g = 0").rows[0]["a"]
    assert set(provider.chats.values()) == {1}
    with pytest.raises(AnswerError, match=r"maximum context length.*write context_tokens => 400"):
        ask(session, f"SELECT {CALL.format('fail')} AS a FROM many WHERE g = 1")


def test_in_a_job(session: Session, provider: BatchProvider) -> None:
    """A deferred statement asks a refused prompt in parts, too, and buys each part once."""
    provider.asked.clear()
    session.update("SET flightllm.delivery = 'batch'")
    sql = f"SELECT {CALL.format('struct')} AS a FROM many WHERE g = 0"
    handle = ask(session, sql).rows[0]["id"]
    session.update("SET flightllm.delivery = 'immediate'")
    state = f"SELECT state FROM system.batches WHERE id = '{handle}'"
    await_true(lambda: ask(session, state).rows[0]["state"] in {"done", "failed"})
    [row] = ask(session, f"SELECT * FROM batch_result('{handle}')").rows
    assert row["a"]["error"] is None
    assert set(provider.asked.values()) == {1}
    assert ask(session, sql).calls == 0


def test_notes_that_are_too_long(tmp_path: Path) -> None:
    """Notes are combined in two parts where one call has no room for them."""
    refused = []

    def narrow(prompt: str) -> tuple[int, str] | None:
        notes = prompt.count("---") - 2
        refused.append("Below are notes" in prompt and notes > 4)
        return (
            (400, "prompt is too long: 9000 tokens > 8000 maximum")
            if "Below are notes" in prompt and notes > 4
            else None
        )

    with batch_provider(fails=narrow) as provider:
        options = {"base_url": provider.url, "provider": "openai", "api_key_env": ""}
        database = Database.open(Config(engine=EngineConfig("openai", "gpt-test", 8, options), data_folder=tmp_path))
        session = database.session()
        session.update("CREATE TABLE r AS SELECT repeat('word ' || value || ' ', 60) AS t FROM generate_series(1, 40)")
        found: Any = ask(session, f"SELECT {CALL.format('struct')} AS a FROM r").rows[0]["a"]
        assert found["error"] is None
        assert set(provider.chats.values()) == {1}
        assert any(refused)
        database.close()
