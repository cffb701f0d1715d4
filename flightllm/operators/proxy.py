"""The proxies of a call with a promise: cheaper models that say which answer is likely, and how sure they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallSite, ModelBinding
from flightllm.operators.oracle import NO_ANSWER, answered, few
from flightllm.operators.population import Population, Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.rows import Counters

NONE: Final = "none"
"""The name of the choice to ask the call's own model about all units."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The likely answer of each unit, as a label of `Oracle.values`, and its probability.

    A unit without a score has the label `NO_ANSWER` and the probability NaN.
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]

    @classmethod
    def unknown(cls, units: int) -> "Scores":
        """Return the entries of `units` units without a score."""
        return cls(np.full(units, NO_ANSWER, np.int64), np.full(units, np.nan))

    def probability(self, label: int) -> NDArray[np.float64]:
        """Return the probability of a label where there are two labels."""
        return np.where(self.labels == label, self.confidence, 1 - self.confidence)


class Proxy(Protocol):
    """A proxy of one call. One thread uses it.

    A proxy that learns asks the `Oracle` about some units first. These units are then known, so they prove nothing.
    """

    name: str
    """The name in EXPLAIN and in `system.ai_calls`."""
    reason: str
    """Why the scores tell nothing; empty if they tell something."""

    def scores(self, units: Units) -> Scores:
        """Return the scores of units; the arrays have one entry for each of them.

        Raises:
            EngineError: the proxy is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """

    def costs_nothing(self) -> bool:
        """Return whether the scores of nearly all units are known or free, as in a rerun."""


class ModelProxy:
    """A cheaper language model, whose probabilities of the options are the scores."""

    def __init__(
        self,
        name: str,
        site: CallSite,
        binding: ModelBinding,
        population: Population,
        cancelled: Callable[[], bool],
        counters: Callable[[], Counters],
    ) -> None:
        """`site` asks the call of `scoring`; its answers are cached as those of any call.

        `counters` returns the counters of the proxy. It is called before the first prompt, if there is one.
        """
        self.name = name
        self.reason = ""
        self._site = site
        self._counters = counters
        self._binding = binding
        self._population = population
        self._cancelled = cancelled
        self._found = Scores.unknown(len(population))
        self._asked = np.zeros(len(population), bool)

    def scores(self, units: Units) -> Scores:
        """Ask about all units at once, except those that were asked before, as in the pilot of a choice."""
        found, new = self._found, units[~self._asked[units]]
        if len(new):
            self._ask(new)
        return Scores(found.labels[units], found.confidence[units])

    def _ask(self, units: Units) -> None:
        found, self._asked[units] = self._found, True
        site = replace(self._site, counters=self._counters())
        site.counters.add(rows=int(self._population.weights[units].sum()))
        for some, answers in answered(site, self._binding, self._population, units, self._cancelled):
            for unit, answer in zip(some.tolist(), answers, strict=True):
                if answer is not None and answer["value"]:
                    probabilities = answer["value"]
                    best = max(range(len(probabilities)), key=probabilities.__getitem__)
                    found.labels[unit], found.confidence[unit] = best, probabilities[best]

    def costs_nothing(self, units: Units | None = None) -> bool:
        """Return whether the answer cache has nearly all scores of units; None means all units."""
        wanted = np.arange(len(self._population)) if units is None else units
        return nearly_all_cached(self._binding, PromptLister([self._site]), wanted, self._population.prompts)


def nearly_all_cached(
    binding: ModelBinding,
    lister: PromptLister,
    units: Units,
    prompts: Callable[[Units], Iterator[tuple[Units, PromptBatch]]],
) -> bool:
    """Return whether the answer cache lacks few answers of a model; `prompts` yields batches of the units' prompts."""
    missing = 0
    for _, batch in prompts(units):
        keys = lister.keys(batch, 0)
        missing += len(set(keys)) - len(binding.cache.peek(keys))
        if not few(missing, len(units)):
            return False
    return True
