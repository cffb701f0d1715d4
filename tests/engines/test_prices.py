"""Prices of hosted models without configuration, and what EXPLAIN makes of them."""

from contextlib import closing
from pathlib import Path

import pytest

from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.llm.cost import Prices
from flightllm.session.database import Database
from tests.databases import explained
from tests.engines.providers import Quirks, provider

pytest.importorskip("genai_prices", reason="the extra 'openai' is not installed")
from flightllm.engines.prices import embedding_prices_of, prices_of

HERE = {"base_url": "http://127.0.0.1:1/v1"}


def test_known_models() -> None:
    """A hosted model has a price, what is cached at its discount; an unknown one and one's own endpoint have none."""
    known = prices_of(EngineConfig("openai", "gpt-4.1-mini", 8, {**HERE, "provider": "openai"}))
    assert known is not None
    assert 0 < known.cached < known.input < known.output
    assert prices_of(EngineConfig("openai", "no-such-model", 8, {**HERE, "provider": "openai"})) is None
    assert prices_of(EngineConfig("openai", "gpt-4.1-mini", 8, HERE)) is None
    assert prices_of(EngineConfig("fake", "gpt-4.1-mini", 8)) is None


def test_hosted_embeddings_have_a_price() -> None:
    """The table's price of an embedding model has no output; a model here and one's own endpoint have none."""
    hosted = EmbeddingConfig("openai", "text-embedding-3-small", options={"base_url": "https://api.openai.com/v1"})
    known = embedding_prices_of(hosted)
    assert known is not None
    assert 0 < known.input == known.cached
    assert known.output == 0
    assert embedding_prices_of(EmbeddingConfig("openai", "text-embedding-3-small", options=HERE)) is None
    assert embedding_prices_of(EmbeddingConfig()) is None


def test_tiers() -> None:
    """Of a price that depends on the prompt's length, that of short prompts counts."""
    known = prices_of(EngineConfig("openai", "claude-sonnet-4-5", 8, {**HERE, "provider": "anthropic"}))
    assert known is not None
    assert known.input > known.cached > 0


def test_configured_prices_come_first() -> None:
    """What the configuration says, holds."""
    config = EngineConfig("openai", "gpt-4.1-mini", 8, {**HERE, "provider": "openai"}, price_input=7.0)
    assert prices_of(config) == Prices(7.0, 7.0, 0.0)


def test_explain_shows_money(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXPLAIN tells what a query would cost at a known model, without any price in the configuration."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with provider(Quirks("x")) as endpoint:
        options = {"base_url": endpoint.url, "provider": "openai"}
        config = Config(engine=EngineConfig("openai", "gpt-4.1-mini", 4, options), data_folder=tmp_path)
        with closing(Database.open(config)) as database, closing(database.session()) as session:
            told = explained(session, "SELECT ai_gen('Write on {n}', n) FROM (VALUES ('a'), ('b')) AS t(n)")
            titles, predicted = told["total"].splitlines()
            assert titles.split()[-1] == "price"
            assert 0 < float(predicted.split()[-1]) < 0.01
            assert not endpoint.bodies


def test_decisions_cost_their_input_alone() -> None:
    """Answers and cached input have no price of their own; a configured price of cached input counts."""
    options = {"api": "decisions"}
    assert prices_of(EngineConfig("openai", "gpt-6-luna", 8, options)) == Prices(0.1, 0.1, 0.0)
    own = EngineConfig("openai", "gpt-6-luna", 8, options, price_input=2, price_cached=1, price_output=7)
    assert prices_of(own) == Prices(2, 1, 0.0)
    own = EngineConfig("openai", "any", 8, {**options, "base_url": "http://127.0.0.1:9/v1"})
    assert prices_of(own) is None
