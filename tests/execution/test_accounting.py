"""Budgets: refused before the first call, kept to while running, whatever way the calls run."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.access.store import Allowance
from flightllm.config import Config, EngineConfig
from flightllm.config.session_settings import Settings
from flightllm.engines.predict import tokenizing
from flightllm.errors import BudgetExceededError
from flightllm.execution.accounting import _answers
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.planning import plan
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import MODEL
from flightllm.operators.budget import Account, RequestBudget
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.temporary_answers import PRIVATE_HELD, TemporaryAnswers
from flightllm.session.database import Database
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, open_database
from tests.endpoints import answer, endpoint_of
from tests.using_engines import Scripted, using

MANY = "CREATE TABLE many AS SELECT value AS id, 'text ' || value AS t FROM generate_series(1, 300) AS g(value)"
FILTERED = "SELECT id, ai_gen('x', t) AS g FROM many WHERE ai_filter('y', t)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Return a database with a table of 300 texts."""
    database = open_database(tmp_path)
    database.session().update(MANY)
    yield database
    database.close()


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("max_calls", "299", r"300 calls where flightllm.max_calls is 299"),
        ("max_tokens", "3000", r"tokens where flightllm.max_tokens is 3,000"),
        ("max_cost", "0.5", r"flightllm.max_cost needs prices"),
    ],
)
def test_refused(database: Database, optimizer: str, key: str, value: str, text: str) -> None:
    """A query whose estimate is above a limit fails before its first call, and says what to do."""
    with pytest.raises(BudgetExceededError, match=text):
        ask(database.session(), "SELECT ai_gen('x', t) FROM many", optimizer=optimizer, **{key: value})
    assert database.engine.inner.sent == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("optimizer", ["on", "off"])
def test_within(database: Database, optimizer: str) -> None:
    """A query within its limits runs as ever; known answers cost nothing."""
    sql = "SELECT ai_gen('x', t, max_tokens => 8) FROM many"
    limits = {"max_calls": "300", "max_tokens": "10000"}
    ran = ask(database.session(), sql, optimizer=optimizer, **limits)
    assert (ran.calls, ran.table.column(0).null_count, ran.record.row()["error"]) == (300, 0, None)
    if optimizer == "on":
        assert ask(database.session(), sql, max_calls="0").calls == 0


def test_changes_too(database: Database) -> None:
    """What is written into a table has the same budget."""
    session = database.session()
    session.update("SET flightllm.max_calls = 10")
    with pytest.raises(BudgetExceededError):
        session.update("CREATE TABLE told AS SELECT ai_gen('x', t) AS g FROM many")


def test_reached(database: Database) -> None:
    """Where more is asked than estimated, the limit holds: the other rows have NULL, and the record says why."""
    session = using(database, Scripted(lambda _: "Yes")).session()
    ran = ask(session, FILTERED, max_calls="500")
    row = ran.record.row()
    assert ran.calls == 500
    assert ran.table.column("g").null_count > 0
    assert row["failed_rows"] == (300 - ran.table.num_rows) + ran.table.column("g").null_count > 0
    assert "flightllm.max_calls is 500" in row["error"]
    assert row["status"] == "done"


def test_reached_in_a_filter(database: Database) -> None:
    """A filter drops the rows that nobody judged; nothing is true by accident."""
    sql = "SELECT id FROM many WHERE ai_filter('z', 'x' || t) AND ai_filter('y', t)"
    ran = ask(using(database, Scripted(lambda _: "Yes")).session(), sql, max_calls="500")
    assert ran.calls == 500
    assert 200 <= ran.table.num_rows < 300


def test_reached_and_failing(database: Database) -> None:
    """Where the session wants it so, the query fails; what was answered is kept."""
    session = using(database, Scripted(lambda _: "Yes")).session()
    with pytest.raises(BudgetExceededError, match=r"budget is spent.*max_calls is 500.*cached"):
        ask(session, FILTERED, max_calls="500", on_budget="fail")
    assert ask(session, FILTERED, max_calls="100").calls == 100


def test_error_told(database: Database) -> None:
    """A call that returns its errors says that the budget was spent."""
    sql = "SELECT ai_gen('x', t, on_error => 'struct') AS g FROM many WHERE ai_filter('y', t)"
    ran = ask(using(database, Scripted(lambda _: "Yes")).session(), sql, max_calls="500")
    errors = [row["g"]["error"] for row in ran.rows if row["g"]["error"]]
    assert errors
    assert all("budget is spent" in error for error in errors)


@pytest.mark.parametrize("optimizer", [True, False])
@pytest.mark.parametrize("tokens", [0, 40, 1_000, 3_333, 100_000])
def test_never_exceeded(database: Database, optimizer: bool, tokens: int) -> None:
    """However many requests are under way, and however long their answers are, tokens stay within the limit."""
    services = database._services
    settings = Settings(optimizer=optimizer)
    query = plan(ParsedText("SELECT ai_gen('x', t, max_tokens => 30) AS g FROM many"), services, settings)
    assert isinstance(query, StagedQuery | BatchQuery)
    engine = services.engine
    exact = tokenizing(engine)
    assert exact is not None
    budget = RequestBudget(
        Account(Allowance(tokens=tokens)), None, lambda p: len(exact.token_ids([p])[0]), engine.count_tokens
    )
    record = database.queries.start("x")
    with closing(TemporaryAnswers()) as cache:
        batches = list(query.run_on({MODEL: ModelBinding(engine, cache, InFlightRequests(), 8, budget)}, record))
    row = record.row()
    record.finish("done")
    assert row["prompt_tokens"] + row["completion_tokens"] <= tokens
    assert sum(b.num_rows for b in batches) == 300
    assert row["failed_rows"] == 300 - row["calls"] == sum(b.column(0).null_count for b in batches)
    if 0 < tokens < 10_000:
        assert row["prompt_tokens"] + row["completion_tokens"] > tokens - 60


def test_cost(tmp_path: Path) -> None:
    """With prices configured the cost is limited too."""
    engine = EngineConfig("fake", price_input=1_000.0, price_output=1_000.0)
    database = Database.open(Config(engine=engine, data_folder=tmp_path))
    session = database.session()
    session.update(MANY)
    with pytest.raises(BudgetExceededError, match="a cost of"):
        ask(session, "SELECT ai_gen('x', t) FROM many", max_cost="0.5")
    assert ask(session, "SELECT ai_gen('x', t) FROM many LIMIT 1", max_cost="1.5").calls == 1
    database.close()


def test_thoughts_at_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is sent only where the limit has room for the thought that its endpoint is told to have."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-of-a-test")
    sql = "SELECT ai_gen('x', 'y', max_tokens => 30, reasoning => 'low') AS g"
    with endpoint_of(lambda path, body, _: answer(path, body)) as endpoint:
        engine = EngineConfig("openai", "claude-sonnet-4-5", 4, {"base_url": endpoint.url, "provider": "anthropic"})
        database = Database.open(Config(engine=engine, data_folder=tmp_path))
        refused = ask(database.session(), sql, max_tokens="2000")
        assert (refused.calls, refused.rows, len(endpoint.bodies)) == (0, [{"g": None}], 0)
        assert ask(database.session(), sql, max_tokens="3000").calls == 1
        (body,) = endpoint.bodies
        assert body["thinking"]["budget_tokens"] == body["max_tokens"] - 30 == 2_048
        database.close()


@pytest.mark.parametrize("private", [Settings(cache=False), Settings(dedup=False)])
def test_a_private_cache_has_little_room(database: Database, private: Settings) -> None:
    """A query without the shared cache, or without its deduplication, has a temporary one that holds 4 MiB."""
    with _answers(database._services, private) as (cache, _):
        assert cache is not database.cache
        assert isinstance(cache, TemporaryAnswers)
        assert cache._most_held == PRIVATE_HELD
    with _answers(database._services, Settings()) as (cache, _):
        assert cache is database.cache
