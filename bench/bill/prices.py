"""The prices of a provider, from the public table in the package `genai-prices`, and the bill of requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from genai_prices.data_snapshot import get_snapshot

from bench.bill.provider import Provider

_TABLES: Final = {"gemini": "google"}
_LONG_WRITE: Final = 2.0
"""The factor on the price of input for a write that lives for an hour; the table has only that of 5 minutes."""
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens."""

    input: float
    read: float
    write: float
    output: float


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request, as its provider bills them; the first three add up to the prompt."""

    input: int
    read: int
    written: int
    output: int
    long: int = 0
    """The part of `written` that is kept for an hour."""

    @property
    def prompt(self) -> int:
        """Return the tokens of the whole prompt."""
        return self.input + self.read + self.written


def prices(provider: Provider) -> Prices:
    """Return the prices of a provider's model.

    Raises:
        LookupError: the table does not have the model.
    """
    table = _TABLES.get(provider.name, provider.name)
    _, found = get_snapshot().find_provider_model(provider.model, None, table, None)
    listed = found.get_prices(datetime.now(UTC))
    input_ = _base(listed.input_mtok)
    read, write = _base(listed.cache_read_mtok, input_), _base(listed.cache_write_mtok, input_)
    return Prices(input_, read, write, _base(listed.output_mtok))


def bill(usages: Iterable[Usage], at: Prices) -> float:
    """Return the dollars for some requests."""
    return (
        sum(
            one.input * at.input
            + one.read * at.read
            + (one.written - one.long) * at.write
            + one.long * at.input * _LONG_WRITE
            + one.output * at.output
            for one in usages
        )
        / _MILLION
    )


def without_cache(usages: Iterable[Usage], at: Prices) -> float:
    """Return the dollars for the same requests at a provider without a cache."""
    return sum(one.prompt * at.input + one.output * at.output for one in usages) / _MILLION


def _base(price: Any, missing: float = 0.0) -> float:
    """Return a price; for prices by length, that of short prompts."""
    found = getattr(price, "base", price)
    return missing if found is None else float(found)
