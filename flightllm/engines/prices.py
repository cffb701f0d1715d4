"""The prices of hosted models, in dollars, from the public table in the installed package `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flightllm.engines.anthropic.claude import claude_rules_of
from flightllm.engines.anthropic.options import read_anthropic_options
from flightllm.engines.cache_rules import CacheRules, rules_of
from flightllm.engines.openai.options import OpenAIOptions, read_openai_options
from flightllm.engines.providers import provider_at
from flightllm.errors import ConfigError
from flightllm.llm.cost import Prices

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig, EngineConfig

_TABLES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "openai",
        "azure": "azure",
        "together": "together",
        "groq": "groq",
        "fireworks": "fireworks",
        "openrouter": "openrouter",
        "mistral": "mistral",
        "deepseek": "deepseek",
        "gemini": "google",
        "anthropic": "anthropic",
    }
)
"""The names of providers in the table, by our names. The table has no prices of local endpoints."""
_RULES: Mapping[str, str] = MappingProxyType({"google": "gemini"})
_DECISIONS: Mapping[tuple[str, str], Prices] = MappingProxyType(
    {("openai", "gpt-6-luna"): Prices(0.10, 0.10, 0.0)}  # OpenAI's price list of autumn 2026
)
"""The prices of decisions of models that the table does not have yet, by provider and model."""
_PARTS = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")


def prices_of(config: EngineConfig) -> Prices | None:
    """Return the configured prices, or the table's prices of a hosted model; None if there are neither."""
    configured = Prices.of(config)
    if config.kind not in {"openai", "anthropic"}:
        return configured
    try:
        provider, rules = _endpoint(config)
        decides = config.kind == "openai" and read_openai_options(config.options).decides
    except ConfigError:  # opening the engine raises this error
        return configured
    if decides:
        listed = _known(_TABLES[provider], config.model) if provider in _TABLES else None
        return of_decisions(configured, listed or _DECISIONS.get((provider, config.model)))
    if configured is not None:
        return replace(configured, written=configured.input * rules.write) if rules and rules.write != 1 else configured
    return _known(_TABLES[provider], config.model) if provider in _TABLES else None


def _endpoint(config: EngineConfig) -> tuple[str, CacheRules | None]:
    """Return the provider of a configured endpoint, and the rules of its cache.

    A gateway to Claude's native API charges Anthropic's prices.

    Raises:
        ConfigError: an option is wrong.
    """
    if config.kind == "openai":
        provider = read_openai_options(config.options).known_provider.name
        return provider, rules_of(provider, config.model)
    provider, rules = read_anthropic_options(config.options).http().known_provider.name, claude_rules_of(config.model)
    return provider if rules is None or provider in _TABLES else "anthropic", rules


def of_decisions(configured: Prices | None, listed: Prices | None) -> Prices | None:
    """Return the prices of decisions: only input tokens cost something, and all cost the same.

    OpenAI charges nothing for answers, and neither more nor less for cached input. A configured `price_cached` counts.
    """
    if configured is not None:
        return replace(configured, output=0.0, written=None)
    return None if listed is None else Prices(listed.input, listed.input, 0.0)


def embedding_prices_of(config: EmbeddingConfig) -> Prices | None:
    """Return the table's prices of a hosted embedding model; None for a model that the table does not have."""
    if config.kind != "openai":
        return None
    provider = provider_at(str(config.options.get("base_url", OpenAIOptions().base_url))).name
    prices = _listed(_TABLES[provider], config.model) if provider in _TABLES else None
    input_ = None if prices is None else _price(prices, "input_mtok", 0)
    return None if input_ is None else Prices(input_, input_, 0.0)


def _listed(provider: str, model: str) -> Any:
    """Return the table's entry of a model; None if there is no table or no such model."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    return found.get_prices(datetime.now(UTC))


@lru_cache(maxsize=256)
def _known(provider: str, model: str) -> Prices | None:
    prices = _listed(provider, model)
    if prices is None:
        return None
    starts = {tier.start for name in _PARTS for tier in getattr(getattr(prices, name, None), "tiers", ())}
    short = _at(prices, 0, rules_of(_RULES.get(provider, provider), model))
    if short is None:
        return None
    longer = ((start, _at(prices, start, None)) for start in sorted(starts))
    return replace(short, tiers=tuple((start, one) for start, one in longer if one is not None))


def _at(prices: Any, length: int, rules: CacheRules | None) -> Prices | None:
    """Return the prices of prompts of more than `length` tokens, or None if that of input or output is missing.

    A missing price of cached or stored tokens follows from `rules`.
    """
    input_, read, written, output = (_price(prices, name, length) for name in _PARTS)
    if input_ is None or output is None:
        return None
    if read is None:
        read = input_
    if written is None and rules is not None and rules.write != 1.0:
        written = input_ * rules.write
    return Prices(input_, read, output, written)


def _price(prices: Any, name: str, length: int) -> float | None:
    """Return a price per million tokens of prompts that are longer than `length` tokens."""
    found = getattr(prices, name, None)
    tiers = [tier for tier in getattr(found, "tiers", ()) if tier.start <= length]
    found = max(tiers, key=lambda tier: tier.start).price if tiers else getattr(found, "base", found)
    return None if found is None else float(found)
