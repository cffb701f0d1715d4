"""The cost of calls: seconds, learned from the work that an engine finished, and the configured price."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.config import EngineConfig


class Rates(NamedTuple):
    """Seconds per unit of each kind of work.

    The defaults are near those of a small model on two cores, or of a large model on a GPU.
    """

    call: float = 2e-3
    computed: float = 2e-4
    """Per prompt token that is computed."""
    cached: float = 2e-6
    """Per prompt token that the prefix cache serves."""
    completion: float = 2e-3
    """Per token of an answer."""

    def prefill(self, computed_tokens: float, cached_tokens: float = 0.0) -> float:
        """Return the seconds until a prompt's last token is computed."""
        return self.call + self.computed * computed_tokens + self.cached * cached_tokens

    def decode(self, tokens: float) -> float:
        """Return the seconds that an answer of this many tokens takes."""
        return self.completion * tokens


_PRIOR = np.array(Rates())
"""The rates before any work was observed."""
_TRUST = 0.3
"""Weight of the prior's split of time between kinds of work, in observations. The engine's speed has no prior."""
_MEMORY = 0.97
"""Factor on the weight of earlier work at each observation: an engine gets slower or faster."""
_FEW_CALLS = 20
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """Work that an engine did or would have to do; `prompt_tokens` include `cached_tokens`."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    written_tokens: int = 0
    """The computed prompt tokens that the engine stored for later prompts, for a fee."""

    def __add__(self, other: "Work") -> "Work":
        """Add up two pieces of work."""
        return Work(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.written_tokens + other.written_tokens,
        )

    @property
    def tokens(self) -> int:
        """Return the number of tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def computed_tokens(self) -> int:
        """Return the number of prompt tokens that are not cached."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def hit_rate(self) -> float:
        """Return the share of the prompt tokens that were cached."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per million tokens, in the administrator's currency; the server does not know which."""

    input: float
    cached: float
    output: float
    written: float | None = None
    """The price of prompt tokens that are stored for later prompts; None: the price of other input."""
    tiers: "tuple[tuple[int, Prices], ...]" = ()
    """Prices of longer prompts: the number of tokens from which they hold, the longest last."""

    @classmethod
    def of(cls, config: EngineConfig) -> "Prices | None":
        """Return the configured prices, or None if no price is configured.

        A price that is missing is 0, except that of cached input: it is the price of other input.
        """
        given = (config.price_input, config.price_cached, config.price_output)
        if all(price is None for price in given):
            return None
        input_ = config.price_input or 0.0
        cached = input_ if config.price_cached is None else config.price_cached
        return cls(input_, cached, config.price_output or 0.0)

    def scaled(self, factor: float, written_factor: float = 1.0) -> "Prices":
        """Return these prices times a factor; that of stored tokens has another factor too."""
        written = None if self.written is None else self.written * factor * written_factor
        tiers = tuple((start, prices.scaled(factor, written_factor)) for start, prices in self.tiers)
        return Prices(self.input * factor, self.cached * factor, self.output * factor, written, tiers)

    def price(self, work: Work) -> float:
        """Return the price of some work; of prices by length, those of the mean prompt hold."""
        mean = work.prompt_tokens / max(1, work.calls)
        at = next((prices for start, prices in reversed(self.tiers) if mean > start), self)
        parts = (
            (work.computed_tokens - work.written_tokens) * at.input,
            work.written_tokens * (at.input if at.written is None else at.written),
            work.cached_tokens * at.cached,
            work.completion_tokens * at.output,
        )
        return sum(parts) / _MILLION


class Costs:
    """The seconds that work takes on one engine, and the price of the work. In memory; thread-safe.

    The rates are a least-squares fit on the relative error. One factor scales the prior to the engine's speed. Each
    kind of work has a deviation from this scaled prior; the deviation stays near 0 while little work was observed.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices
        self._lock = threading.Lock()
        self._moments = np.zeros((len(_PRIOR), len(_PRIOR)))
        self._sums = np.zeros(len(_PRIOR))

    def observe(self, work: Work, seconds: float) -> None:
        """Learn from work that took `seconds`; work of few calls has a small weight."""
        if work.calls < 1 or seconds <= 0:
            return
        shares = _parts(work) * _PRIOR / seconds
        weight = work.calls / (work.calls + _FEW_CALLS)
        with self._lock:
            self._moments = self._moments * _MEMORY**weight + weight * np.outer(shares, shares)
            self._sums = self._sums * _MEMORY**weight + weight * shares

    def seconds(self, work: Work) -> float:
        """Return the seconds that some work would take."""
        return self.weigher()(work)

    def weigher(self) -> Callable[[Work], float]:
        """Return a function that estimates the seconds of work by the rates of now."""
        rates = np.array(self.rates())
        return lambda work: float(_parts(work) @ rates)

    def price(self, work: Work) -> float | None:
        """Return the price of some work, or None if no prices are configured."""
        return None if self.prices is None else self.prices.price(work)

    def counted(self, counts: Mapping[str, int]) -> float | None:
        """Return the price of counted calls, or None if no prices are configured."""
        return self.price(counted_work(counts))

    def rates(self) -> Rates:
        """Return the estimated seconds per unit of each kind of work."""
        with self._lock:
            moments, sums = self._moments, self._sums
        if not sums.any():
            return Rates()
        speed = sums.sum() / moments.sum()
        trust = _TRUST * np.eye(len(_PRIOR))
        deviation = np.linalg.solve(speed**2 * moments + trust, speed * sums - speed**2 * moments.sum(axis=1))
        found: NDArray[np.float64] = speed * _PRIOR * np.maximum(1 + deviation, 0.0)
        return Rates(*found.tolist())


def counted_work(counts: Mapping[str, int]) -> Work:
    """Return the work of the counters of a call site."""
    names = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
    return Work(*(counts[name] for name in names))


Works: TypeAlias = Mapping[str | None, Work]
"""Work by model; the key None means the server's own model."""


class ModelCosts:
    """The costs of all models of a query."""

    def __init__(self, costs: Mapping[str | None, Costs]) -> None:
        self._costs = costs

    def seconds(self, works: Works) -> float:
        """Return the seconds that some work would take if the models worked one after the other."""
        return sum(self._costs[model].seconds(work) for model, work in works.items() if work != Work())

    def price(self, works: Works) -> float | None:
        """Return the price of some work, or None if a model that has work has no prices."""
        prices = [self._costs[model].price(work) for model, work in works.items() if work != Work()]
        if not prices:
            return 0.0 if any(costs.prices for costs in self._costs.values()) else None
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None


def _parts(work: Work) -> NDArray[np.float64]:
    return np.array([work.calls, work.computed_tokens, work.cached_tokens, work.completion_tokens], dtype=np.float64)
