"""Decide about several filters of one promise together: a row passes if the answers of all its prompts are yes.

A unit is a tuple of prompts, one for each filter, that some rows have. The filters of a unit are asked one after the
other, and the first no ends the asking. The score of a unit is the product of the scores of its prompts.

Example: of the filters `Is it red?` and `Is it big?`, 4 and 6 of 10 rows pass. So `Is it red?` comes first, and a unit
costs 1.4 questions on average.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flightllm.functions.call import AICall
from flightllm.operators.batches import PromptBatch
from flightllm.operators.cascade import Decision
from flightllm.operators.oracle import NO_ANSWER, UNASKED, Oracle
from flightllm.operators.population import Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import ModelProxy, Scores
from flightllm.operators.rows import Counters, sql_value

_NO: Final = 0
_YES: Final = 1
_TRIED: Final = 16
"""So many units begin with each filter, to learn which filter drops most."""
_EVEN: Final = 0.5
_HOPELESS: Final = 0.01
"""A unit that passes one filter with a smaller probability needs no score of the other filters."""


def joint_call(calls: Sequence[AICall]) -> AICall:
    """Return a call that stands for all of `calls` in figures, notices and predictions."""
    first = calls[0]
    return replace(
        first,
        text=" AND ".join(call.text for call in calls),
        instruction="\n".join(f"{call.function} {call.instruction} {call.reading}" for call in calls),
        fields=tuple(name for call in calls for name in call.fields),
    )


def figures_of(number: int, calls: Sequence[AICall], decided: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the figures of one of `calls`, so that sums over all of them count each row once.

    The first call has all figures. The others say whose promise it is, and where its figures are.
    """
    if decided is None or "held" not in decided:
        return decided if number == 0 else None
    if number == 0:
        return {**decided, "filters": len(calls)}
    said = {name: decided[name] for name in ("targets", "proxy", "held")}
    return {**said, "reason": f"The figures are those of {calls[0].text}."}


class JointPopulation:
    """The distinct tuples of prompts of the rows that have a prompt for each filter. One thread uses it."""

    def __init__(self, oracles: Sequence[Oracle], listers: Sequence[PromptLister]) -> None:
        """Read all rows once; `listers` list the prompts of the filters."""
        self._oracles = oracles
        self._listers = listers
        found = [(prompts, weights) for batch in self.rows() for _, prompts, weights in [self._listed(batch)]]
        prompts = np.concatenate([np.empty((len(oracles), 0), np.int64), *(p for p, _ in found)], axis=1)
        weights = np.concatenate([np.empty(0, np.int64), *(w for _, w in found)])
        self._codes: list[Units] = []
        """For each filter after the first, the tuples of prompts up to it as sorted numbers; see `_coded`."""
        code, first, unit = prompts[0], np.arange(len(weights)), np.arange(len(weights))
        for number in range(1, len(oracles)):
            code = self._coded(code, number, prompts[number])
            distinct, first, unit = np.unique(code, return_index=True, return_inverse=True)
            self._codes.append(distinct)
            code = unit
        self.prompts: NDArray[np.int64] = prompts[:, first]
        """For each filter, the number of its prompt for each unit: a unit of the filter's own oracle."""
        self.weights: Units = np.bincount(unit, weights=weights, minlength=len(first)).astype(np.int64)
        """The rows of each unit."""

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.weights)

    def rows(self) -> Iterator[PromptBatch]:
        """Yield all rows in the order in which prompts are sent.

        Raises:
            CancelledError: the query was cancelled.
        """
        return self._oracles[0].population.rows()

    def units(self, batch: PromptBatch) -> tuple[Units, Units]:
        """Return the tuples of a batch that have a unit, and their units."""
        places, prompts, _ = self._listed(batch)
        code = prompts[0]
        for number, codes in enumerate(self._codes, start=1):
            code = np.searchsorted(codes, self._coded(code, number, prompts[number]))
        return places, code

    def _coded(self, code: Units, number: int, prompts: Units) -> Units:
        """Return one number for each pair of a number so far and a prompt of the filter `number`."""
        return code * len(self._oracles[number].population) + prompts

    def _listed(self, batch: PromptBatch) -> tuple[Units, NDArray[np.int64], Units]:
        """Return the tuples of a batch with a prompt for each filter, these prompts, and their rows."""
        prompts = np.full((len(self._oracles), len(batch.tuples)), -1)
        for number, (oracle, lister) in enumerate(zip(self._oracles, self._listers, strict=True)):
            if listed := lister.listed(batch, 0):
                prompts[number, [place for place, _, _ in listed]] = oracle.population.units([k for *_, k in listed])
        places = np.flatnonzero((prompts >= 0).all(axis=0))
        weights = np.bincount(batch.tuple_of_row, minlength=len(batch.tuples))
        return places, prompts[:, places], weights[places]


class JointOracle:
    """The answers about units: yes if all filters say yes. One thread uses it.

    See `Oracle`, which it is for several filters. A unit without an answer of one filter has no answer.
    """

    def __init__(self, oracles: Sequence[Oracle], population: JointPopulation) -> None:
        self.population = population
        self.values: list[object] = [False, True]
        self.labels: NDArray[np.int64] = np.full(len(population), UNASKED, np.int64)
        """The label of each unit: 0, 1, `NO_ANSWER` or `UNASKED`."""
        self.errors: dict[int, str] = {}
        """Why units have no answer."""
        self.refused: str = ""
        """Why the budget allows no more questions; empty while it allows them."""
        self.taught: Units = np.empty(0, np.int64)
        """The units that a proxy asked about: no unit."""
        self._oracles = oracles
        self._yes = [oracle.values.index(True) for oracle in oracles]
        self._tried = np.zeros(len(oracles))
        self._passed = np.zeros(len(oracles))
        self._read(np.arange(len(population)))
        self.knows_some = any(oracle.knows_some for oracle in oracles)
        """Whether the cache had answers before the first one was asked."""

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Forget which answers are known, and let `ask` take nearly all answers from the cache; see `Oracle`."""
        tried, passed = self._tried.copy(), self._passed.copy()
        try:
            with ExitStack() as stack:
                for oracle in self._oracles:
                    stack.enter_context(oracle.replayed())
                self.labels[:] = UNASKED
                yield
        finally:
            self._tried, self._passed = tried, passed
            self._read(np.arange(len(self.population)))

    def ask(self, units: Units) -> NDArray[np.int64]:
        """Ask about units, and return their labels. Units that were asked before cost nothing.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
            NotKnownError: within `replayed`, the cache lacks more than a few of the answers.
        """
        new = units[self.labels[units] == UNASKED]
        if not self._tried.any():
            count = _TRIED * len(self._oracles)
            self._ask(new[:count], np.arange(min(count, len(new))) % len(self._oracles))
            new = new[count:]
        if len(new) and not self.refused:
            self._ask(new, None)
        return self.labels[units]

    def told(self) -> NDArray[np.int64]:
        """Return the labels of all units. A prompt that units share tells about each of them."""
        return np.where(self.labels == UNASKED, self._labelled(np.arange(len(self.population))), self.labels)

    def count_failed(self, counters: Sequence[Counters]) -> None:
        """Add the rows whose prompts failed, or were refused, to the counters of the filters."""
        weights = self.population.weights
        failed = np.flatnonzero(self.labels == NO_ANSWER)
        for oracle, prompts, own in zip(self._oracles, self.population.prompts, counters, strict=True):
            wrong = [unit for unit in failed.tolist() if int(prompts[unit]) in oracle.errors]
            own.add(failed_rows=int(weights[wrong].sum()))
        counters[0].add(failed_rows=int(weights[list(self.errors)].sum()))

    def _ask(self, units: Units, first: Units | None) -> None:
        """Ask about units until each has a label. `first` are the filters to begin with; None: the strictest."""
        while len(units) and not self.refused:
            asked = self._next(units, first)
            for number in range(len(self._oracles)):
                self._ask_one(number, units[asked == number])
            self._read(units)
            units, first = units[self.labels[units] == UNASKED], None

    def _next(self, units: Units, first: Units | None) -> Units:
        """Return for each unit the filter to ask now: `first` if it is open, or else the strictest open one."""
        open_ = np.stack([labels == UNASKED for labels in self._labels(units)])
        shares = (self._passed + 1) / (self._tried + 2)
        strictest = np.where(open_, shares[:, None], np.inf).argmin(axis=0)
        return strictest if first is None else np.where(open_[first, np.arange(len(units))], first, strictest)

    def _ask_one(self, number: int, units: Units) -> None:
        """Ask one filter about units."""
        if not len(units):
            return
        oracle, prompts = self._oracles[number], self.population.prompts[number]
        # Rows that other filters have let through do not tell how strict a filter is for all rows.
        told = units[np.all([labels == UNASKED for labels in self._labels(units)], axis=0)]
        oracle.ask(np.unique(prompts[units]))
        self.refused = self.refused or oracle.refused
        self._tried[number] += len(told)
        self._passed[number] += int((oracle.labels[prompts[told]] == self._yes[number]).sum())

    def _labels(self, units: Units) -> list[NDArray[np.int64]]:
        """Return the labels of the units' prompts, for each filter."""
        return [o.labels[prompts[units]] for o, prompts in zip(self._oracles, self.population.prompts, strict=True)]

    def _read(self, units: Units) -> None:
        """Set the labels of those of the units whose prompts tell it."""
        self.labels[units] = self._labelled(units)

    def _labelled(self, units: Units) -> NDArray[np.int64]:
        """Return the labels of units that the answers about their prompts tell."""
        labels = np.stack(self._labels(units))
        passed = labels == np.asarray(self._yes)[:, None]
        found = np.where(passed.all(axis=0), _YES, UNASKED)
        found = np.where((labels == NO_ANSWER).any(axis=0), NO_ANSWER, found)
        return np.where(((labels >= 0) & ~passed).any(axis=0), _NO, found)


class JointProxy:
    """The product of the probabilities that the proxies of the filters give. One thread uses it."""

    def __init__(self, proxies: Sequence[ModelProxy], oracles: Sequence[Oracle], population: JointPopulation) -> None:
        self.name = " and ".join(dict.fromkeys(proxy.name for proxy in proxies))
        self.reason = ""
        self._proxies = proxies
        self._yes = [oracle.values.index(True) for oracle in oracles]
        self._population = population
        self.scored: tuple[float, ...] = ()
        """For each filter, the share of its prompts that got a score in the last scoring."""

    def scores(self, units: Units) -> Scores:
        """Return the scores of units; see `Proxy`."""
        likely, scored = np.ones(len(units)), []
        for number in range(len(self._proxies)):
            needing, prompts = self._needing(likely, number, units), np.unique(self._population.prompts[number][units])
            scored.append(len(needing) / max(1, len(prompts)))
            likely = self._multiplied(likely, number, units)
        self.scored = tuple(scored)
        labels = np.where(np.isnan(likely), NO_ANSWER, np.where(likely >= _EVEN, _YES, _NO))
        return Scores(labels, np.maximum(likely, 1 - likely))

    def foresee(self, shares: Sequence[float], units: Units) -> None:
        """Ask each filter's proxy about a share of the units' prompts; without shares, about all of them."""
        for number, proxy in enumerate(self._proxies):
            prompts = np.unique(self._population.prompts[number][units])
            # The prompts are in the order of a hash, so the first ones are a sample.
            proxy.scores(prompts[: ceil(shares[number] * len(prompts))] if shares else prompts)

    def costs_nothing(self) -> bool:
        """Return whether the scores of nearly all units are known or free, as in a rerun."""
        units, likely = np.arange(len(self._population)), np.ones(len(self._population))
        for number, proxy in enumerate(self._proxies):
            if not proxy.costs_nothing(self._needing(likely, number, units)):
                return False
            if number + 1 < len(self._proxies):
                likely = self._multiplied(likely, number, units)
        return True

    def _multiplied(self, likely: NDArray[np.float64], number: int, units: Units) -> NDArray[np.float64]:
        """Return the probabilities so far, times those of the filter `number` where they are not tiny."""
        own, prompts = self._needing(likely, number, units), self._population.prompts[number][units]
        found = np.ones(len(units))
        open_ = _is_open(likely)
        scores = self._proxies[number].scores(own).probability(self._yes[number])
        found[open_] = scores[np.searchsorted(own, prompts[open_])]
        return likely * found

    def _needing(self, likely: NDArray[np.float64], number: int, units: Units) -> Units:
        """Return the prompts of the filter `number` that need a score, sorted."""
        return np.unique(self._population.prompts[number][units[_is_open(likely)]])


def _is_open(likely: NDArray[np.float64]) -> NDArray[np.bool_]:
    return ~(likely < _HOPELESS)


@dataclass(frozen=True, slots=True)
class JointRows:
    """The rows of one pass, and the filters that decide about them."""

    calls: Sequence[AICall]
    population: JointPopulation
    oracle: JointOracle
    counters: Sequence[Counters]

    def passing(self, decision: Decision) -> Iterator[PromptBatch]:
        """Yield the rows that pass all filters, with yes as the answer of each.

        Raises:
            CancelledError: the query was cancelled.
        """
        self.oracle.count_failed(self.counters)
        for batch in self.population.rows():
            places, units = self.population.units(batch)
            passed = np.zeros(len(batch.tuples), bool)
            passed[places] = decision.labels[units] == _YES
            for number, (call, own) in enumerate(zip(self.calls, self.counters, strict=True)):
                own.add(rows=batch.kept)
                batch.answers[number] = [sql_value(call, value=True, failure=None)] * len(batch.tuples)
            batch.keep(passed[batch.tuple_of_row])
            yield batch
