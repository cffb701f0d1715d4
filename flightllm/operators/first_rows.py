"""Answer the rows that a LIMIT needs, the likeliest first, for a filter with a promise.

A LIMIT returns some rows only, so nothing can be promised about the others: the promise is a precision. The first wave
asks the call's own model about all of its prompts, as without a promise. If few rows pass, a proxy scores the prompts
of each further wave, and the model gets those that are likely to pass. The others wait until no prompts are left.

Of n rows, as many as the precision allows can be wrong. So the last ones are returned without a question.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import floor
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.functions.call import AICall
from flightllm.operators.arrange import ArgumentColumns, Arranged
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallSite, LimitTracker, ModelBinding
from flightllm.operators.cascade import Decision, answer_rows
from flightllm.operators.oracle import UNASKED, Oracle
from flightllm.operators.population import Population, Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import Proxy
from flightllm.operators.rows import Counters

_FEW_PASS: Final = 0.5
"""A proxy helps only if a smaller share of the rows passes: it is asked about all rows, and the model about few."""
_LIKELY: Final = 0.5
_MOST_WAITING: Final = 64 << 20
"""The bytes of rows that wait at most; the model is asked about further rows at once."""


@dataclass(slots=True)
class _Wave:
    """Some rows, and the units among them that have no decided answer."""

    batch: PromptBatch
    oracle: Oracle
    likely: NDArray[np.float64]
    """The probability of yes for each unit."""
    left: Units
    """The units without an answer, the likeliest first."""
    begun: bool = False
    """Whether the rows that need no answer have gone out."""


@dataclass(slots=True)
class FirstRows:
    """The rows of one pass under a LIMIT. One thread uses it."""

    call: AICall
    site: CallSite
    binding: ModelBinding
    proxy: Callable[[Oracle], Proxy]
    """Makes the proxy of one wave."""
    arranged: Arranged
    arguments: ArgumentColumns
    lister: PromptLister
    tracker: LimitTracker
    counters: Counters
    cancelled: Callable[[], bool]
    returned: int
    """The rows that the LIMIT returns."""
    name: str = ""
    """The name of the proxy, once it was asked."""
    asked: int = 0
    """The rows that the model answered."""
    unasked: int = 0
    """The rows that were returned without a question."""
    _yes: int = 0
    _seen: int = 0

    def batches(self) -> Iterator[PromptBatch]:
        """Yield rows with their answers, until the consumer has enough.

        Raises:
            EngineError: an engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        waiting: list[_Wave] = []
        held = 0
        for batch in self.arranged.batches():
            wave = self._wave(batch)
            if not self._proxy_helps:
                yield from self._answered(wave, wave.left)
                continue
            scores = self._score(wave)
            likely = wave.left[scores >= _LIKELY]
            while len(likely):
                some, likely = self._next(wave, likely)
                yield from some
            held += batch.rows.nbytes
            if held > _MOST_WAITING:
                yield from self._answered(wave, wave.left)
                held -= batch.rows.nbytes
            elif len(wave.left) or not wave.begun:
                waiting.append(wave)
        for wave in waiting:
            yield from self._answered(wave, wave.left)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the call site so far, see `CallRecord.promise`."""
        return {
            "targets": str(self.call.promise),
            "proxy": self.name or "none",
            "rows": self.asked + self.unasked,
            "known": 0,
            "asked": self.asked,
            "precision": 1 - self.unasked / self.returned if self.returned else 1.0,
            "recall": None,
            "accuracy": None,
            "delta": 0.0,
            "held": True,
            "useless": False,
            "unanswered": 0,
            "reason": "A LIMIT returns some of the rows, so only precision is promised.",
        }

    @property
    def _proxy_helps(self) -> bool:
        """Return whether few of the rows so far passed, and those that passed are those with the answer yes."""
        passed = self.tracker.rows
        return self._seen > 0 and passed < _FEW_PASS * self._seen and (not passed or self._passed_by_yes)

    @property
    def _passed_by_yes(self) -> bool:
        return abs(self.tracker.rows - self._yes) <= abs(self.tracker.rows - (self._seen - self._yes))

    def _wave(self, batch: PromptBatch) -> _Wave:
        one = replace(self.arranged, batches=lambda: iter([batch]))
        population = Population(one, None, self.arguments, self.lister, self.cancelled)
        oracle = Oracle(self.site, self.binding, population, self.cancelled)
        every = np.arange(len(population))
        return _Wave(batch, oracle, np.ones(len(population)), every)

    def _score(self, wave: _Wave) -> NDArray[np.float64]:
        """Let the proxy score the units of a wave, and put the likeliest first; return the scores in that order."""
        proxy = self.proxy(wave.oracle)
        self.name = proxy.name
        found = proxy.scores(wave.left).probability(wave.oracle.values.index(True))
        wave.likely = np.where(np.isnan(found), _LIKELY, found)
        wave.left = np.argsort(-wave.likely, kind="stable")
        return wave.likely[wave.left]

    def _next(self, wave: _Wave, likely: Units) -> tuple[Iterator[PromptBatch], Units]:
        """Return the rows of the likeliest units, as many as the LIMIT still needs, and the other likely units."""
        weights = wave.oracle.population.weights
        needed = self.tracker.rows_left
        free = self._allowed - self.unasked
        if needed <= free and int(weights[likely[0]]) <= free:
            count = max(1, int(np.searchsorted(np.cumsum(weights[likely]), min(needed, free), "right")))
            some = likely[:count]
            unknown = some[wave.oracle.labels[some] < 0]
            wave.oracle.labels[unknown] = wave.oracle.values.index(True)
            self.unasked += int(weights[unknown].sum())
            return self._answered(wave, some), likely[count:]
        count = max(1, int(np.searchsorted(np.cumsum(weights[likely]), max(needed - free, 1), "left")) + 1)
        return self._answered(wave, likely[:count]), likely[count:]

    @property
    def _allowed(self) -> int:
        """Return how many of the returned rows can be wrong."""
        precision = None if self.call.promise is None else self.call.promise.precision
        return 0 if precision is None else floor((1 - precision) * self.returned + 1e-9)

    def _answered(self, wave: _Wave, units: Units) -> Iterator[PromptBatch]:
        """Ask about units and yield their rows; with the first ones go the rows that need no answer."""
        oracle, population = wave.oracle, wave.oracle.population
        new = units[oracle.labels[units] == UNASKED]
        labels = oracle.ask(units)
        wave.left = wave.left[~np.isin(wave.left, units)]
        yes = oracle.values.index(True)
        self.asked += int(population.weights[new].sum())
        self._seen += int(population.weights[units].sum())
        self._yes += int(population.weights[units[labels == yes]].sum())
        batch = wave.batch
        chosen = np.zeros(len(batch.tuples), bool)
        listed = self.lister.listed(batch, 0)
        places = np.asarray([place for place, _, _ in listed], np.int64)
        if listed:
            unit = population.units([key for _, _, key in listed])
            chosen[places[np.isin(unit, units)]] = True
        if not wave.begun:
            silent = np.ones(len(batch.tuples), bool)
            silent[places] = False
            chosen |= silent
            wave.begun = True
        if not chosen.any():
            return
        rows = iter([_part(batch, chosen)])
        yield from answer_rows(self.call, oracle, Decision(oracle.labels, None), self.lister, self.counters, rows)
        self.tracker.add_trials(int(chosen.sum()))


def _part(batch: PromptBatch, chosen: NDArray[np.bool_]) -> PromptBatch:
    """Return the rows of the chosen tuples."""
    rows = np.flatnonzero(chosen[batch.tuple_of_row])
    place = np.cumsum(chosen) - 1
    kept = np.flatnonzero(chosen).tolist()
    return PromptBatch(
        batch.rows.take(pa.array(rows)),
        place[batch.tuple_of_row[rows]],
        [batch.tuples[one] for one in kept],
        [batch.orders[one] for one in kept] if batch.orders else [],
    )
