"""What hosted models cost, by a public table: in dollars, as the package `genai-prices` knew them when it was built."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flightllm.errors import ConfigError
from flightllm.llm.openai.options import read_openai_options
from flightllm.model.cost import Prices

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

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
"""Providers by their names there. One's own endpoints cost nothing that a table knows."""


def prices_of(config: EngineConfig) -> Prices | None:
    """Return the configured prices, or else those known of a hosted model; None where neither is there."""
    configured = Prices.of(config)
    if configured is not None or config.kind != "openai":
        return configured
    try:
        provider = read_openai_options(config.options).known_provider.name
    except ConfigError:  # who opens the engine says so
        return None
    return _known(_TABLES[provider], config.model) if provider in _TABLES else None


@lru_cache(maxsize=256)
def _known(provider: str, model: str) -> Prices | None:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        _, found = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    prices = found.get_prices(datetime.now(UTC))
    input_, output = _price(prices, "input_mtok"), _price(prices, "output_mtok")
    if input_ is None or output is None:
        return None
    cached = _price(prices, "cache_read_mtok")
    return Prices(input_, input_ if cached is None else cached, output)


def _price(prices: Any, name: str) -> float | None:
    """Return a price per million tokens; of one with tiers by the prompt's length, that of short prompts."""
    found = getattr(prices, name, None)
    found = getattr(found, "base", found)
    return None if found is None else float(found)
