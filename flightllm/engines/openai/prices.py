"""The prices of hosted models, in dollars, from the public table in the installed package `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flightllm.engines.openai.options import read_openai_options
from flightllm.errors import ConfigError
from flightllm.llm.cost import Prices

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
"""The names of providers in the table, by our names. The table has no prices of local endpoints."""


def prices_of(config: EngineConfig) -> Prices | None:
    """Return the configured prices, or the table's prices of a hosted model; None if there are neither."""
    configured = Prices.of(config)
    if configured is not None or config.kind != "openai":
        return configured
    try:
        provider = read_openai_options(config.options).known_provider.name
    except ConfigError:  # opening the engine raises this error
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
    """Return a price per million tokens; with tiers by the prompt's length, the price for short prompts."""
    found = getattr(prices, name, None)
    found = getattr(found, "base", found)
    return None if found is None else float(found)
