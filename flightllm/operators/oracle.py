"""Ask the own model of a call with a promise about some units, and keep its answers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.functions.scoring import values_of
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.population import Population, Units
from flightllm.operators.rows import Response, read_answer

UNASKED: Final = -2
NO_ANSWER: Final = -1
"""The label of a unit whose prompt failed, or whose answer is NULL."""
_MOST_MISSING: Final = 0.05
_MOST_READINGS, _MOST_TEXT = 1_024, 256
"""The most readings of cached answers that are kept, and the most characters of their texts."""


class NotKnownError(Exception):
    """A unit was asked whose answer the cache lacks."""


class Weighted(Protocol):
    """Some units, and how many rows each of them has."""

    weights: Units

    def __len__(self) -> int:
        """Return the number of units."""


class Answers(Protocol):
    """The answers about units, see `Oracle`: those of one call, or of several calls together."""

    values: list[Any]
    labels: NDArray[np.int64]
    errors: dict[int, str]
    refused: str
    taught: Units
    knows_some: bool

    @property
    def population(self) -> Weighted:
        """Return the units."""

    def replayed(self) -> AbstractContextManager[None]:
        """Forget which answers are known, and let `ask` take nearly all answers from the cache."""

    def ask(self, units: Units) -> NDArray[np.int64]:
        """Ask about units, and return their labels."""

    def told(self) -> NDArray[np.int64]:
        """Return the labels of all units, also of those that were not asked but follow from answers about others."""


class Oracle:
    """The answers of a call's own model, as numbers of their values: see `values_of`. One thread uses it.

    Answers that the cache has are known from the start. An answer that failed is not asked again. Within `replayed`,
    no answer is known before it is asked.
    """

    def __init__(
        self, site: CallSite, binding: ModelBinding, population: Population, cancelled: Callable[[], bool]
    ) -> None:
        if site.prepare is not None and len(population):
            site = site.prepared(binding, cancelled)
        self.population = population
        self.values: list[Any] = values_of(site.ai)
        """The values that an answer can have; a label is a place in this list."""
        self.labels: NDArray[np.int64] = np.full(len(population), UNASKED, np.int64)
        """The label of each unit, `NO_ANSWER` or `UNASKED`."""
        self.errors: dict[int, str] = {}
        """Why units have no answer."""
        self.refused: str = ""
        """Why the budget allows no more questions; empty while it allows them. Later labels would be no sample."""
        self.taught: Units = np.empty(0, np.int64)
        """The units that a proxy asked about, to learn or to be chosen; they prove nothing about others."""
        self._site = alone(site)
        self._binding = binding
        self._cancelled = cancelled
        self._readings: dict[str, int] = {}
        self._kept: NDArray[np.int64] | None = None
        """Within `replayed`: the labels of answers in the cache."""
        self._lacking = 0
        """The answers so far that the cache lacked, within `replayed`."""
        self._look_up(site.sampled or set())
        self.knows_some = bool((self.labels != UNASKED).any())
        """Whether the cache had answers before the first one was asked."""

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Forget which answers are known, and let `ask` take nearly all answers from the cache.

        So a rerun goes as the first run did. Answers that failed then are asked again. Afterwards all answers are known
        again.
        """
        self._kept, self._lacking = self.labels.copy(), 0
        self.labels[:] = UNASKED
        try:
            yield
        finally:
            self.labels[:], self._kept = self._kept, None

    def ask(self, units: Units) -> NDArray[np.int64]:
        """Ask about units, and return their labels. Units that were asked before cost nothing.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
            NotKnownError: within `replayed`, the cache lacks more than a few of the answers.
        """
        if self._kept is not None:
            # Few of all answers can lack. Of a small wave, one that failed would be many.
            self._lacking += int((self._kept[units] == UNASKED).sum())
            if not few(self._lacking, int((self._kept != UNASKED).sum())):
                raise NotKnownError
            self.labels[units] = self._kept[units]
        self.ask_with([(self, units)])
        if self._kept is not None:
            self._kept[units] = self.labels[units]
        return self.labels[units]

    def ask_with(self, asked: Sequence[tuple["Oracle", Units]]) -> None:
        """Ask about units of several oracles of the same call. All prompts go out together.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        new = [(oracle, units[oracle.labels[units] == UNASKED]) for oracle, units in asked]
        wanted = [(oracle.population, units) for oracle, units in new]
        for place, some, answers in _answered(self._site, self._binding, wanted, self._cancelled):
            new[place][0].take(some, answers)
        refusal = self._binding.refusal
        for oracle, units in new:
            if refusal and (oracle.labels[units] == NO_ANSWER).any():
                oracle.refused = refusal

    def take(self, units: Units, answers: Sequence[Any]) -> None:
        """Take the answers about units."""
        for unit, answer in zip(units.tolist(), answers, strict=True):
            self.labels[unit] = self._label(answer, unit)

    def told(self) -> NDArray[np.int64]:
        """Return the labels of all units: an answer about one unit tells nothing about others."""
        return self.labels

    def _label(self, answer: Any, unit: int) -> int:
        if isinstance(answer, dict):
            if answer["error"] is not None:
                self.errors[unit] = answer["error"]
            answer = answer["value"]
        return self.values.index(answer) if answer is not None and answer in self.values else NO_ANSWER

    def _look_up(self, sampled: set[bytes]) -> None:
        """Read the answers that the cache has. Those in `sampled` are counted already."""
        cache, found = self._binding.cache, 0
        for units in self.population.chunks(np.arange(len(self.population))):
            keys = self.population.keys(units)
            known = cache.peek(keys)
            usable = []
            for unit, key in zip(units.tolist(), keys, strict=True):
                if (text := known.get(key)) is not None and (label := self._read(text)) != UNASKED:
                    self.labels[unit] = label
                    usable.append(key)
            if usable:
                cache.get(usable)  # they are used now, so they are evicted last
                found += len(usable) - len(sampled.intersection(usable))
        self._site.counters.add(distinct_prompts=found, prompts_expected=found, cache_hits=found)

    def _read(self, text: str) -> int:
        """Return the label of a cached answer; `UNASKED` if it is unusable."""
        label = self._readings.get(text)
        if label is None:
            reading = read_answer(self._site.ai, Response(text))
            usable = reading.failure is None and reading.value in self.values
            label = self.values.index(reading.value) if usable else UNASKED
            if len(text) <= _MOST_TEXT and len(self._readings) < _MOST_READINGS:
                self._readings[text] = label
        return label


def few(missing: int, count: int) -> bool:
    """Return whether the answers that the cache lacks are as few as those that fail at times."""
    return missing <= _MOST_MISSING * count


def alone(site: CallSite) -> CallSite:
    """Return the site of a call about units, which are rows that need an answer; it adds no rows to the counters."""
    ai = site.ai if site.ai.on_error == "fail" else replace(site.ai, on_error="struct")
    return replace(site, ai=ai, when=None, guard=None, prepare=None, asks_example=True, sampled=None, label_budget=None)


def answered(
    site: CallSite, binding: ModelBinding, population: Population, units: Units, cancelled: Callable[[], bool]
) -> Iterator[tuple[Units, Sequence[Any]]]:
    """Ask a model about units in the order that suits its prefix cache; yield some of them with their answers.

    Raises:
        EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
        BudgetExceededError: the budget is spent, and the session wants the query to fail then.
        CancelledError: the query was cancelled.
    """
    for _, some, answers in _answered(site, binding, [(population, units)], cancelled):
        yield some, answers


def _answered(
    site: CallSite, binding: ModelBinding, wanted: Sequence[tuple[Population, Units]], cancelled: Callable[[], bool]
) -> Iterator[tuple[int, Units, Sequence[Any]]]:
    """Ask a model about units of several populations at once; yield the place of each with units and their answers."""
    if not any(len(units) for _, units in wanted):
        return
    open_units: dict[int, tuple[int, Units]] = {}

    def batches() -> Iterator[PromptBatch]:
        for place, (population, units) in enumerate(wanted):
            for some, batch in population.prompts(units):
                open_units[id(batch)] = place, some
                yield batch

    context = CallContext(binding, binding.in_flight.open(), [site], all_at_once(1), prompts_counted=False)
    with closing(CallExecutor(context).answer(batches(), cancelled)) as done:
        for batch in done:
            yield *open_units.pop(id(batch)), batch.answers.get(0, [None] * len(batch.tuples))
