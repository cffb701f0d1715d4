"""The proxies of models for the calls of a user's query, and the prices that tell which calls to save."""

from functools import cache

from flightllm.engines.prices import prices_of
from flightllm.errors import AICallError
from flightllm.execution.bind import call_names
from flightllm.execution.context import Services
from flightllm.optimizer.promise_rows import Means


def means_of(services: Services) -> Means:
    """Return the proxies that the user can use, and the prices of prompt tokens; 1 for a model without a price."""
    names = call_names(services)

    def proxies(model: str | None) -> tuple[str, ...] | str:
        try:
            return names.proxies(None, model)
        except AICallError as error:
            return str(error)

    def price(model: str | None) -> float:
        config = services.engines.own_config if model is None else services.objects.engine(model)
        prices = None if config is None else prices_of(config)
        return prices.input if prices is not None and prices.input > 0 else 1.0

    return Means(cache(proxies), cache(price))
