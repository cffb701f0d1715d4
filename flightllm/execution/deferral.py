"""The statements that wait for a provider's batch endpoint, as queries see them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from flightllm.common.principal import Principal
from flightllm.engines.registry import OpenModel
from flightllm.llm.batch_endpoint import batch_endpoint, batch_prices
from flightllm.llm.cost import Work


@dataclass(frozen=True, slots=True)
class DeferredStatement:
    """A statement with all that a later run needs: nothing of its session must be left then."""

    sql: str
    """The text as it was sent."""
    parameters: bytes | None
    """One row of parameters as an Arrow stream, or None."""
    settings: dict[str, str]
    """The settings that differ from their defaults, without `delivery`."""
    path: tuple[str, ...]
    """The search path."""
    principal: Principal
    is_update: bool
    """Whether the statement changes a table and returns no rows."""
    as_postgres: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """The probable prompts and prices of a deferred statement. A price is None if a model has no prices."""

    prompts: int
    price: float | None
    """The price at the batch endpoint."""
    immediate_price: float | None


class Deferral(Protocol):
    """Keeps deferred statements, and runs them."""

    def create(self, statement: DeferredStatement, forecast: Forecast) -> str:
        """Keep a statement on disk, begin to run it, and return its id."""

    def cancel(self, batch_id: str, principal: Principal) -> None:
        """Stop a statement; the answers that came stay in the answer cache.

        Raises:
            NotFoundError: the user has no deferred statement with this id.
        """

    def remove(self, batch_id: str, principal: Principal) -> None:
        """Remove a statement that has ended, with its rows and prompts; the answer cache keeps its answers.

        Raises:
            NotFoundError: the user has no deferred statement with this id.
            InvalidInputError: the statement has not ended.
        """

    def close(self) -> None:
        """Stop; a later process goes on. Idempotent."""

    def result(self, batch_id: str, principal: Principal) -> pa.Table:
        """Return the rows of a query that is done.

        Raises:
            NotFoundError: the user has no deferred query with this id.
            InvalidInputError: there are no rows yet, or never will be.
        """


def forecast_of(works: Mapping[str | None, Work], models: Mapping[str | None, OpenModel]) -> Forecast:
    """Return the number of prompts and both prices of predicted work.

    A batch reads what its own prompts stored, and nothing else: see `engines.batch_starts`. Where this saves nothing,
    no start is stored.
    """
    prompts, price, immediate = 0, 0.0, 0.0
    priced = True
    for name, work in works.items():
        if work == Work():  # a query with embeddings only opens no language model
            continue
        prompts += work.calls
        endpoint, prices = batch_endpoint(models[name].engine), models[name].costs.prices
        if prices is None or endpoint is None:
            priced = False
            continue
        at_endpoint = batch_prices(prices, endpoint)
        uncached = at_endpoint.price(Work(work.calls, work.prompt_tokens, 0, work.completion_tokens))
        price += min(uncached, at_endpoint.price(work)) if work.written_tokens else uncached
        immediate += prices.price(work)
    return Forecast(prompts, price if priced else None, immediate if priced else None)


def both_prices(works: Mapping[str | None, Work], models: Mapping[str | None, OpenModel], delivery: str) -> str | None:
    """Return a line about the price at once and in a batch; None if a model has no batch endpoint or no prices."""
    forecast = forecast_of(works, models)
    if forecast.price is None or forecast.immediate_price is None:
        return None
    prices = {"immediate": forecast.immediate_price, "batch": forecast.price}
    return ", ".join(f"{name}: ${price:.6g}{' (chosen)' if name == delivery else ''}" for name, price in prices.items())
