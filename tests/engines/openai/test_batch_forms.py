"""Deferred statements at providers whose files and jobs are not quite OpenAI's, and the rules of each provider."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines.openai.batch_rules import RULES
from flightllm.engines.openai.engine import OpenAIEngine, create
from flightllm.errors import UnsupportedError
from flightllm.session.database import Database
from tests.deferred.test_deferral import ROWS, deferred, ended, in_order, rows_of
from tests.provider_batches import FORMS, provider_batches
from tests.servers import await_true

TEXTS = "SELECT id, ai_gen('Say', x, on_error => 'struct') AS a FROM t"


@contextmanager
def opened(folder: Path, options: dict[str, Any]) -> Iterator[Database]:
    """Open a database whose engine asks a stand-in, with the table `t`."""
    engine = EngineConfig("openai", "gpt-test", price_input=1.0, price_output=2.0, options=options)
    database = Database.open(Config(engine=engine, data_folder=folder))
    try:
        rows = f"SELECT value AS id, 'row ' || value AS x FROM generate_series(1, {ROWS})"
        database.session().update(f"CREATE TABLE t AS {rows}")
        yield database
    finally:
        database.close()


@contextmanager
def engine_for(options: dict[str, Any]) -> Iterator[OpenAIEngine]:
    """Open an engine."""
    engine = create(EngineConfig("openai", "gpt-test", options=options))
    try:
        yield engine
    finally:
        engine.close()


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form == "mistral" else pytest.mark.slow) for form in FORMS]
)
def test_rows_are_those_of_the_immediate_query(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form sends its files and jobs, reads its answers and failures, and buys each prompt once."""
    monkeypatch.setattr("flightllm.engines.openai.batches._LOOK_SECONDS", 0.01)

    def fails(prompt: str) -> tuple[int, str] | None:
        return (400, "flagged") if "row 7\n" in f"{prompt}\n" else None

    with (
        provider_batches(form, looks=2, fails=fails, untidy=True) as (provider, options),
        opened(tmp_path, options) as db,
    ):
        session = db.session()
        batch_id = deferred(session, TEXTS)
        row = ended(db, batch_id)
        assert (row["state"], row["error"], row["failed"]) == ("done", None, 1), row
        assert set(provider.asked.values()) == {1}
        found = db.deferred.result(batch_id, session.principal).to_pylist()
        assert [one["id"] for one in found if one["a"]["error"]] == [7]
        assert not provider.chats
        assert in_order(rows_of(session, TEXTS, cache="off"))[1:3] == in_order(found)[1:3]


@pytest.mark.parametrize("form", FORMS)
def test_a_job_without_a_reply_is_found(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted process finds a job by its name, and not one of another name."""
    monkeypatch.setattr("flightllm.engines.openai.batches._LOOK_SECONDS", 0.01)
    line = '{"model": "gpt-test", "messages": [{"role": "user", "content": "hi"}]}'
    with provider_batches(form) as (provider, options):
        with engine_for(options) as engine:
            assert engine.batches is not None
            made = engine.batches.submit("a1b2c3d4e5f6-1-1", [engine.batches.line("1", line)])
            assert len(provider.jobs) == 1
        with engine_for(options) as restarted:
            batches = restarted.batches
            assert batches is not None
            assert batches.find("a1b2c3d4e5f6-1-1", 1e9) == made
            assert batches.find("a1b2c3d4e5f6-1-10", 1e9) is None
            await_true(lambda: batches.state(made).ended)
            assert [(one.custom_id, one.status) for one in batches.results(made)] == [("1", 200)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mistral", "together", "gemini"])
def test_a_refused_job_says_why(form: str, tmp_path: Path) -> None:
    """The provider's reason is the error of the statement."""
    with provider_batches(form, refuses="no such model") as (_, options), opened(tmp_path, options) as database:
        row = ended(database, deferred(database.session(), TEXTS))
        assert row["state"] == "failed"
        assert "no such model" in row["error"]


@pytest.mark.slow
def test_geminis_quota_is_a_full_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini answers status 429 with the words of an empty account when too many jobs wait; they are sent later."""
    monkeypatch.setattr("flightllm.deferred.jobs.FIRST_PAUSE", 0.05)
    with provider_batches("gemini", busy=2) as (provider, options), opened(tmp_path, options) as database:
        row = ended(database, deferred(database.session(), TEXTS))
        assert (row["state"], row["error"]) == ("done", None)
        assert set(provider.asked.values()) == {1}


@pytest.mark.parametrize(
    ("provider", "model", "price"),
    [
        ("groq", "any", 0.5),
        ("mistral", "mistral-small-latest", 0.5),
        ("gemini", "gemini-3-flash", 0.5),
        ("together", "Qwen/Qwen2.5-7B-Instruct-Turbo", 0.5),
        ("together", "deepseek-ai/DeepSeek-V3", 1.0),
    ],
)
def test_prices(provider: str, model: str, price: float) -> None:
    """Together discounts some models only; the option `batch_price` counts where it is set."""
    for given, expected in (({}, price), ({"batch_price": 0.25}, 0.25)):
        config = EngineConfig("openai", model, options={"provider": provider, "api_key_env": "", **given})
        engine = create(config)
        try:
            assert engine.batches is not None
            assert engine.batches.price == expected
            assert engine.batches.limits == RULES[provider].limits
        finally:
            engine.close()


@pytest.mark.parametrize(
    "provider",
    ["fireworks", *(pytest.param(one, marks=pytest.mark.slow) for one in ("deepseek", "openrouter", "ollama"))],
)
def test_other_providers_have_none(provider: str, tmp_path: Path) -> None:
    """A provider without such a batch endpoint is refused before anything is sent, with what to write instead."""
    options = {"provider": provider, "base_url": "http://127.0.0.1:9/v1", "api_key_env": ""}
    with opened(tmp_path, options) as database, pytest.raises(UnsupportedError, match="has no batch endpoint"):
        deferred(database.session(), TEXTS)
