"""The embedding proxy: a model that is fitted to the vectors of some rows and to what the oracle says about them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.engines.extras import extras_of
from flightllm.functions import vector_of
from flightllm.functions.call import EMBEDDING, AICall
from flightllm.llm.engine import Parameters
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallContext, CallSite, ModelBinding, all_at_once
from flightllm.operators.call_executor import CallExecutor
from flightllm.operators.learned_scores import held_out, learn
from flightllm.operators.oracle import Oracle
from flightllm.operators.population import Population, Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import Scores, nearly_all_cached
from flightllm.operators.rows import Counters
from flightllm.operators.vector_table import VectorTable

Predict: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.float64]], float]
"""Returns the share of units that must be asked, given their likely labels and their probabilities."""

_MOST_TEXTS: Final = 512
BUDGET_SHARE: Final = 4
"""A label budget is divided by this number: so many prompts can go into training, and as many into a choice."""
_FEWEST_LESSONS: Final = 12
"""Fewer answers teach nothing, so no vector is made for them. A small label budget pays for these first."""


def embedding_call(call: AICall) -> AICall:
    """Return the call that embeds the values of another call; with one field, as `ai_embed(field)` does in SQL."""
    return AICall(
        stub="",
        function="ai_embed",
        text=call.text,
        instruction="document",
        fields=(call.fields[0] if len(call.fields) == 1 else "text",),
        required=frozenset({0}),
        parameters=Parameters(max_tokens=128),
        output=pa.list_(pa.float32()),
        parse=vector_of,
        on_error="struct",
        backend=EMBEDDING,
    )


class UnitVectors:
    """The vectors of a population's units, each embedded when it is first needed. One thread uses it."""

    def __init__(
        self,
        site: CallSite,
        binding: ModelBinding,
        population: Population,
        table: VectorTable,
        counters: Callable[[], Counters],
        cancelled: Callable[[], bool],
    ) -> None:
        """`site` is the site of the call itself, and `binding` has the embedding model.

        `counters` returns the counters of the embedding model. It is called before the first text, if there is one.
        """
        self._lister = PromptLister([site])
        self._binding = binding
        self._population = population
        self._table = table
        self._cancelled = cancelled
        self._there = np.zeros(len(population), bool)
        self._counters = counters
        self._own = site
        self._site: CallSite | None = None

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self._table)

    def open(self) -> CallSite:
        """Return the site of the call that embeds. Its keys need the embedding model, which is loaded here.

        Open it before labels are asked for: without vectors they teach nothing.

        Raises:
            ConfigError: the embedding model cannot be loaded.
            MissingExtraError: its extra is not installed.
        """
        if self._site is None:
            call = embedding_call(self._own.ai)
            keys = self._binding.keys(call, fields_first=False)
            self._site = CallSite(call, ((0,),), (0,), None, None, keys, self._own.counters, asks_example=True)
        return self._site

    @property
    def load_seconds(self) -> float:
        """For about how many seconds the first vector waits for the embedding model."""
        return extras_of(self._binding.engine).load_seconds

    def read(self, units: Units) -> NDArray[np.float32]:
        """Return the vectors of some units; embed those that are new.

        Raises:
            EngineError: the embedding model is gone.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        self._embed(units[~self._there[units]])
        return self._table.read(units)

    def are_known(self) -> bool:
        """Return whether the answer cache has the vectors of nearly all units."""
        units = np.arange(len(self._population))
        return nearly_all_cached(self._binding, PromptLister([self.open()]), units, self._batches)

    def _embed(self, units: Units) -> None:
        if not len(units):
            return
        self._there[units] = True
        site = replace(self.open(), counters=self._counters())
        site.counters.add(rows=int(self._population.weights[units].sum()))
        open_units: dict[int, Units] = {}

        def batches() -> Iterator[PromptBatch]:
            for some, batch in self._batches(units):
                open_units[id(batch)] = some
                yield batch

        binding = self._binding
        context = CallContext(binding, binding.in_flight.open(), [site], all_at_once(1), prompts_counted=False)
        with closing(CallExecutor(context).answer(batches(), self._cancelled)) as done:
            for batch in done:
                for unit, answer in zip(open_units.pop(id(batch)).tolist(), batch.answers.get(0, ()), strict=False):
                    if answer is not None and answer["value"] is not None:
                        self._table.write(unit, answer["value"])
        self._table.release()

    def _batches(self, units: Units) -> Iterator[tuple[Units, PromptBatch]]:
        """Yield units with a batch that has their values as one text each."""
        for some, batch in self._population.prompts(units):
            texts: list[str | None] = [None] * len(some)
            for place, fields, _ in self._lister.listed(batch, 0):
                texts[place] = fields[0][1] if len(fields) == 1 else "\n".join(f"{n}: {value}" for n, value in fields)
            yield some, PromptBatch.of_texts([(text,) for text in texts])


@dataclass
class _Teacher:
    """The oracle, as the model sees it."""

    oracle: Oracle
    predict: Predict
    count: int
    most: int

    def known(self) -> NDArray[np.int64]:
        return self.oracle.labels

    def ask(self, units: Units) -> None:
        self.oracle.ask(units)


@dataclass
class EmbeddingProxy:
    """A logistic regression over the vectors of the rows, fitted to known answers and to some that it asks for."""

    name: str
    vectors: UnitVectors
    oracle: Oracle
    predict: Predict
    seed: int
    label_budget: int | None = None
    reason: str = ""

    def scores(self, units: Units) -> Scores:
        """Embed all units, and ask the oracle about as many of them as the model needs to learn."""
        most = len(units)
        if self.label_budget is not None:
            most = min(self.label_budget, max(self.label_budget // BUDGET_SHARE, _FEWEST_LESSONS))
        known = int((self.oracle.labels >= 0).sum())
        if min(most, len(units)) + known < _FEWEST_LESSONS:
            least = min(len(units), _FEWEST_LESSONS - known)
            self.reason = f"The proxy {self.name} learns from {least} labels or more."
            return Scores.unknown(len(units))
        self.vectors.open()
        teacher = _Teacher(self.oracle, self.predict, len(self.oracle.values), most)
        found = learn(self.vectors, units, teacher, self.seed)
        self.reason = found.reason
        return Scores(found.labels, found.confidence)

    @property
    def learns(self) -> bool:
        """Return True: the scores come from labels of other units."""
        return True

    @property
    def wait(self) -> float:
        """Return for about how many seconds the first score waits."""
        return self.vectors.load_seconds

    def open(self) -> None:
        """Load the embedding model."""
        self.vectors.open()

    def prepare(self, units: Units) -> None:
        """Embed units."""
        self.vectors.read(units)

    def tried(self, units: Units, labels: NDArray[np.int64]) -> Scores:
        """Return scores of units whose labels are known, each by a model fitted to the others."""
        count = len(self.oracle.values)
        found = held_out(self.vectors.read(units), labels, count)
        if found is None:
            found = np.full((len(units), count), 1 / count)
        return Scores(found.argmax(axis=1), found.max(axis=1))

    def costs_nothing(self) -> bool:
        """Return whether the answer cache has the vectors of nearly all units."""
        return self.vectors.are_known()
