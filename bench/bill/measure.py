"""Run a query at one provider with one layout, cold and then warm, and compare the bills with EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench.bill.prices import bill, prices, without_cache
from bench.bill.provider import Provider
from bench.bill.queries import Query
from bench.bill.server import Endpoint, Ledger
from bench.common import read_to_end
from bench.setting import open_database
from flightllm.config import EngineConfig
from flightllm.session.database import Database

IN_FLIGHT: Final = 8
BEFORE: Final[Mapping[str, str]] = {"layout": "instruction", "ordering": "auto"}
"""The settings of the layout that the product had before it chose by price."""
CHOSEN: Final[Mapping[str, str]] = {"layout": "auto", "ordering": "auto"}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its bill, the bill of the same requests without a cache, EXPLAIN's price and calls, and the requests."""

    bill: float
    none: float
    predicted: float | None
    predicted_calls: int
    ledger: Ledger

    @property
    def error(self) -> float | None:
        """Return how much the prediction exceeds the bill, as a share of the bill; negative if it is less."""
        return None if self.predicted is None or not self.bill else (self.predicted - self.bill) / self.bill

    def figures(self) -> Mapping[str, Any]:
        """Return the run for JSON."""
        usages = self.ledger.usages
        return {
            "bill": self.bill,
            "none": self.none,
            "predicted": self.predicted,
            "predicted_calls": self.predicted_calls,
            "error": self.error,
            "requests": len(usages),
            "prompt_tokens": sum(one.prompt for one in usages),
            "read_tokens": sum(one.read for one in usages),
            "written_tokens": sum(one.written for one in usages),
            "output_tokens": sum(one.output for one in usages),
            "refused": len(self.ledger.refused),
        }


def engine(provider: Provider, url: str, *, native: bool) -> EngineConfig:
    """Return the configuration of the engine at a server; `native` is Anthropic's own API where the product has it."""
    if native:
        return EngineConfig("anthropic", provider.model, IN_FLIGHT, {"base_url": url})
    options = {"base_url": f"{url}/v1", "provider": provider.name, "api_key_env": ""}
    return EngineConfig("openai", provider.model, IN_FLIGHT, options)


def has_native(provider: Provider) -> bool:
    """Return whether the product speaks this provider's own API."""
    return provider.name == "anthropic" and find_spec("flightllm.engines.anthropic") is not None


@contextmanager
def opened(provider: Provider, url: str, files: Mapping[str, Path], *, native: bool) -> Iterator[Database]:
    """Open a new database over the tables, whose engine knows nothing of the endpoint."""
    with open_database(engine(provider, url, native=native), files) as database:
        yield database


def run(
    database: Database,
    endpoint: Endpoint,
    query: Query,
    part: int,
    settings: Mapping[str, str],
    *,
    cold: bool,
    explained: bool = True,
) -> Run:
    """Predict a query over one part of the tables if it is `explained`, then run it.

    `cold` empties the endpoint's cache before.
    """
    session = database.session()
    sql = query.sql.format(p=part)
    endpoint.begin(cold=cold)
    predicted: Mapping[str, Any] = {"price": None, "calls": 0}
    if explained:
        result = session.execute(f"EXPLAIN (FORMAT json, SAVINGS off) {sql}", settings=dict(settings))
        (text,) = (text for batch in result.batches for text in batch.column(0).to_pylist())
        predicted = json.loads(text)["total"]["predicted"]
    ledger = endpoint.begin(cold=False)
    read_to_end(session.execute(sql, settings=dict(settings)).batches)
    at = prices(endpoint.provider)
    return Run(
        bill(ledger.usages, at), without_cache(ledger.usages, at), predicted["price"], predicted["calls"], ledger
    )
