"""The options of the engine, its prices, and the secrets that a model of CREATE MODEL can use."""

import pytest

from flightllm.config import EngineConfig, ModelsConfig
from flightllm.engines.anthropic.options import AnthropicOptions, read_anthropic_options
from flightllm.engines.prices import prices_of
from flightllm.engines.sql_secrets import restricted
from flightllm.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    """An address with and without `/v1` is the same."""
    assert AnthropicOptions(base_url=url).address == address


def test_tables_as_texts() -> None:
    """SQL writes tables as texts with JSON objects."""
    found = read_anthropic_options({"headers": '{"anthropic-beta": "x"}', "extra_body": '{"service_tier": "auto"}'})
    assert found.headers == {"anthropic-beta": "x"}
    assert found.http().extra_body == {"service_tier": "auto"}


def test_answers_depend_on_some_options() -> None:
    """A system prompt changes answers and so the revision; the cache of prompts changes none."""
    plain = AnthropicOptions().http().revision_suffix()
    assert AnthropicOptions(prompt_cache="off").http().revision_suffix() == plain
    assert AnthropicOptions(system_prompt="Be brief.").http().revision_suffix() != plain


def test_prices() -> None:
    """Claude has the list prices at any address, with reads and writes; own prices get those of writes."""
    pytest.importorskip("genai_prices", reason="the extra 'anthropic' is not installed")
    for url in ("https://api.anthropic.com", "http://127.0.0.1:4000"):
        known = prices_of(EngineConfig("anthropic", "claude-haiku-4-5", 8, {"base_url": url}))
        assert known is not None
        assert (known.input, known.cached, known.written, known.output) == (1.0, 0.1, 1.25, 5.0)
    long = prices_of(EngineConfig("anthropic", "claude-sonnet-4-5", 8, {}))
    assert long is not None
    assert long.tiers
    own = prices_of(EngineConfig("anthropic", "claude-none", 8, {}, price_input=2.0, price_output=4.0))
    assert own is not None
    assert own.written == 2.5
    assert prices_of(EngineConfig("anthropic", "qwen3-8b", 8, {"base_url": "http://127.0.0.1:8000"})) is None


def test_secrets_of_models_in_sql() -> None:
    """Only Anthropic's own address gets the key of the environment without a list."""
    hosted = EngineConfig("anthropic", "claude-haiku-4-5", 8, {})
    assert restricted(hosted, ModelsConfig()).options.get("api_key_env", "unset") == "unset"
    other = EngineConfig("anthropic", "claude-haiku-4-5", 8, {"base_url": "http://127.0.0.1:1"})
    assert restricted(other, ModelsConfig()).options["api_key_env"] == ""
    asked = EngineConfig("anthropic", "m", 8, {"base_url": "http://127.0.0.1:1", "api_key": "env:ANTHROPIC_API_KEY"})
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        restricted(asked, ModelsConfig())
