"""Choose among several proxies by a pilot: the same rows for all, with the oracle's answers about them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.embedding_proxy import BUDGET_SHARE, Predict
from flightllm.operators.learned_scores import fit
from flightllm.operators.oracle import Oracle
from flightllm.operators.population import Units
from flightllm.operators.proxy import NONE, Proxy, Scores
from flightllm.quality.calibration import logits

_SHARE, _FEWEST, _MOST = 0.02, 60, 160
_FEWEST_IN_BUDGET: Final = 24
"""A pilot of fewer prompts tells too little to choose by."""
_MOST_PREDICTED: Final = 20_000
"""A prediction is made for this many units at most; the share of more would be about the same."""
_LEAST_SECONDS: Final = 1e-6
"""A pilot takes at least these seconds, because they divide those of the proxies."""


class Candidate(Protocol):
    """A proxy that can be tried on a few units at a part of its price."""

    @property
    def name(self) -> str:
        """Return the name in EXPLAIN and in `system.ai_calls`."""

    @property
    def reason(self) -> str:
        """Return why the scores tell nothing; empty if they tell something."""

    @property
    def learns(self) -> bool:
        """Return whether the proxy needs labels to learn from."""

    @property
    def wait(self) -> float:
        """Return for about how many seconds the first score waits."""

    def open(self) -> None:
        """End the wait."""

    def prepare(self, units: Units) -> None:
        """Do what a score of units takes, except what is done once for all units."""

    def tried(self, units: Units, labels: NDArray[np.int64]) -> Scores:
        """Return scores of units whose labels are known; the scores must not know the label of their own unit."""

    def scores(self, units: Units) -> Scores:
        """Return the scores of units."""

    def costs_nothing(self) -> bool:
        """Return whether the scores of all units are known or free."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate, and the price of its score of one unit, where an answer of the oracle costs 1.

    The price is None if the oracle has no price: the seconds that both take for the pilot then stand for prices.
    """

    proxy: Candidate
    price: float | None


@dataclass
class ChosenProxy:
    """The proxy with the lowest predicted price, or none if no proxy is likely to save anything. One thread uses it."""

    candidates: Sequence[Priced]
    oracle: Oracle
    predict: Predict
    seed: int
    label_budget: int | None = None
    name: str = "auto"
    """The name of the chosen proxy, once it is chosen."""
    reason: str = ""
    expected: dict[str, float] = field(default_factory=dict)
    """By name: the predicted price of all units, where asking the oracle about all costs 1."""
    clock: Callable[[], float] = time.monotonic

    def scores(self, units: Units) -> Scores:
        """Ask the oracle about a pilot, try all proxies on it, and let the cheapest score all units."""
        rng = np.random.default_rng([self.seed, 2])
        size = int(np.clip(_SHARE * len(units), _FEWEST, _MOST))
        budget = len(units) if self.label_budget is None else self.label_budget
        short = budget < len(units)
        if short and (size := min(size, budget // BUDGET_SHARE)) < _FEWEST_IN_BUDGET:
            return self._scored_by(min(self.candidates, key=lambda one: one.proxy.learns).proxy, units)
        pilot = rng.permutation(units)[:size]
        started = self.clock()
        labels = self.oracle.ask(pilot)
        seconds = max(self.clock() - started, _LEAST_SECONDS) / len(pilot)
        answered = pilot[labels >= 0]
        best: Candidate | None = None
        # A budget that cannot pay for all rows leaves some to a proxy, even if it saves nothing.
        self.expected = {NONE: np.inf if short else 1.0}
        for one in self.candidates:
            waits = one.price is None and not short and one.proxy.wait >= seconds * len(units)
            price = np.inf if waits else self._expected(one, answered, len(units), seconds)
            self.expected[one.proxy.name] = price
            if price < min(value for name, value in self.expected.items() if name != one.proxy.name):
                best = one.proxy
        if best is None:
            what = "no time" if any(one.price is None for one in self.candidates) else "nothing"
            self.name, self.reason = NONE, f"By a pilot, {' and '.join(self._names)} would save {what}."
            return Scores.unknown(len(units))
        return self._scored_by(best, units)

    def _expected(self, one: Priced, units: Units, count: int, seconds: float) -> float:
        """Return the price of `count` units by a candidate that is tried on `units`; an answer takes `seconds`."""
        one.proxy.open()
        started = self.clock()
        one.proxy.prepare(units)
        taken = (self.clock() - started) / max(len(units), 1)
        labels = self.oracle.labels[units]
        share = self._share(one.proxy.tried(units, labels), labels, count)
        return share + (taken / seconds if one.price is None else one.price)

    def _scored_by(self, proxy: Candidate, units: Units) -> Scores:
        self.name, found = proxy.name, proxy.scores(units)
        self.reason = proxy.reason
        return found

    def costs_nothing(self) -> bool:
        """Return whether the scores of a proxy are known or free; an earlier run then chose it."""
        return any(one.proxy.costs_nothing() for one in self.candidates)

    @property
    def _names(self) -> list[str]:
        return [one.proxy.name for one in self.candidates]

    def _share(self, found: Scores, labels: NDArray[np.int64], units: int) -> float:
        """Predict the share of units that is asked, if all units have scores like those of the pilot."""
        known = np.flatnonzero(found.labels >= 0)
        if len(known) < 2:
            return 1.0
        likely, sure = calibrated(found.labels[known], found.confidence[known], labels[known], len(self.oracle.values))
        count = min(units, _MOST_PREDICTED)
        failed = 1 - len(known) / len(labels)
        return failed + (1 - failed) * self.predict(np.resize(likely, count), np.resize(sure, count))


def calibrated(
    likely: NDArray[np.int64], sure: NDArray[np.float64], labels: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return likely labels and their probabilities as the true labels of the same units show them.

    With two labels, a proxy that is wrong more often than right gets the other label. With more, it becomes unsure.
    """
    odds = logits(sure)
    binary = count == 2
    signed = np.where(likely == 1, odds, -odds) if binary else odds
    features = np.asarray(signed[:, None] / 4, np.float32)
    truth = (labels == 1 if binary else labels == likely).astype(np.int64)
    model = fit(features, truth, strength=1.0)
    if model is None:
        share = (truth.sum() + 0.5) / (len(truth) + 1)
        chance = np.full(len(truth), share)
    else:
        chance = model.probabilities(features, 2)[:, 1]
    if not binary:
        return likely, chance
    return (chance >= 0.5).astype(np.int64), np.maximum(chance, 1 - chance)


@dataclass(frozen=True, slots=True)
class Tried:
    """A proxy whose scores do not depend on labels, as a candidate."""

    proxy: Proxy

    @property
    def name(self) -> str:
        """Return the name of the proxy."""
        return self.proxy.name

    @property
    def reason(self) -> str:
        """Return why the scores tell nothing."""
        return self.proxy.reason

    @property
    def learns(self) -> bool:
        """Return False: the scores come from a language model."""
        return False

    @property
    def wait(self) -> float:
        """Return 0: a model that a query uses is open."""
        return 0.0

    def open(self) -> None:
        """Do nothing: the model is open."""

    def prepare(self, units: Units) -> None:
        """Ask the model about units."""
        self.proxy.scores(units)

    def tried(self, units: Units, labels: NDArray[np.int64]) -> Scores:
        """Return the scores of units."""
        del labels
        return self.proxy.scores(units)

    def scores(self, units: Units) -> Scores:
        """Return the scores of units."""
        return self.proxy.scores(units)

    def costs_nothing(self) -> bool:
        """Return whether the scores of all units are known or free."""
        return self.proxy.costs_nothing()
