"""Answer the rows that a LIMIT needs, the likeliest first, for a filter with a promise.

A LIMIT returns some rows only, so nothing can be promised about the others: the promise is a precision. A row is
returned in one of two ways:

- The call's own model said yes to it. Such a row is right by definition.
- Nobody asked. Of n returned rows, `floor((1 - precision) * n)` can be wrong. No more than these go out unasked, and
  they are the last ones that the LIMIT needs. So even if all of them are wrong, the precision holds.

So the promise is certain, whatever the proxy says: its scores only order the questions. The first wave
asks about rows as they come, as without a promise. `LikelyFirst` says where scores are worth their price.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.functions.call import AICall
from flightllm.observe.promise_figures import promise_figures
from flightllm.operators.arrange import ArgumentColumns, Arranged
from flightllm.operators.batches import PromptBatch
from flightllm.operators.call_context import CallSite, LimitTracker, ModelBinding
from flightllm.operators.cascade import Decision, answer_rows
from flightllm.operators.label_budget import SPENT
from flightllm.operators.oracle import NO_ANSWER, UNASKED, Oracle
from flightllm.operators.population import Population, Units
from flightllm.operators.prompts import PromptLister
from flightllm.operators.proxy import Proxy
from flightllm.operators.rows import Counters
from flightllm.quality.forecast import Seen
from flightllm.quality.likely_first import Effort, LikelyFirst, Missing, search

_MOST_SCORED: Final = 512
"""The most prompts that the proxy gets before the next decision."""
_MOST_WAITING: Final = 64 << 20
"""The bytes of rows that wait at most; further rows get no scores."""
_LIKELIER_YES: Final = 0.5


class PartSize:
    """The size of the next part of the rows, which the reader of the parts sets."""

    def __init__(self) -> None:
        self.wanted = 1

    def __call__(self) -> int:
        """Return the distinct tuples of the next part."""
        return self.wanted


@dataclass(slots=True)
class _Part:
    """Some rows, and the units among them."""

    batch: PromptBatch
    oracle: Oracle
    places: NDArray[np.int64]
    """The tuples that need an answer."""
    unit_of: Units
    """The unit of each of these tuples."""
    numbers: Units = field(default_factory=lambda: np.empty(0, np.int64))
    """The number of each unit among the scored units; -1 where its answer was known."""
    begun: bool = False
    """Whether the rows that need no answer have gone out."""

    def out(self, units: Units) -> PromptBatch | None:
        """Return the rows of units, and at first those that need no answer; None if there are no such rows."""
        chosen = np.zeros(len(self.batch.tuples), bool)
        chosen[self.places[np.isin(self.unit_of, units)]] = True
        if not self.begun:
            silent = np.ones(len(chosen), bool)
            silent[self.places] = False
            chosen |= silent
            self.begun = True
        return _rows_of(self.batch, chosen) if chosen.any() else None


@dataclass(slots=True)
class FirstRows:
    """The rows of one pass under a LIMIT. One thread uses it."""

    call: AICall
    site: CallSite
    binding: ModelBinding
    proxy: Callable[[Oracle], Proxy]
    """Makes the proxy of one part of the rows."""
    price: Callable[[Oracle], float]
    """Returns the price of one score, where an answer of the call's own model costs 1."""
    arranged: Arranged
    size: PartSize
    """The size of the parts in which `arranged` yields its rows."""
    arguments: ArgumentColumns
    lister: PromptLister
    tracker: LimitTracker
    counters: Counters
    cancelled: Callable[[], bool]
    order: LikelyFirst = field(default_factory=lambda: LikelyFirst(1.0))
    name: str = ""
    """The name of the proxy, once it was asked."""
    reason: str = ""
    """Why rows have no answer; empty if all have one that need it."""
    _parts: list[_Part] = field(default_factory=list)
    """The parts that have scored units."""
    _part_of: list[tuple[int, int]] = field(default_factory=list)
    """For each scored unit: its part, and its number there."""
    _source: Iterator[PromptBatch] = field(default_factory=lambda: iter(()))
    """The rows that are not read yet."""
    _read: int = 0
    """The units that were read."""
    _held: int = 0
    _ended: bool = False
    _asked: int = 0
    """The prompts that the model got."""
    _rows: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("asked", "known", "left", "unasked", "yes", "no", "null"), 0)
    )
    """The rows that went out: how their answers came, and which they are."""
    _prompts: int = 0
    """The distinct prompts of these rows."""
    _errors: int = 0

    def batches(self) -> Iterator[PromptBatch]:
        """Yield rows with their answers, until the consumer has enough.

        Raises:
            EngineError: an engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        self._source = self.arranged.batches()
        yield from search(self.order, self)
        if not self._is_over:
            yield from self._unanswered(self._source)

    def missing(self) -> Missing | None:
        """Return the rows that the LIMIT still needs; None if no unit is left, or if nothing can be asked any more."""
        if self._is_over or self._room <= 0 or self.reason:
            return None
        return Missing(self.tracker.rows_left, self._units_left, self._room)

    def unasked(self) -> Iterator[PromptBatch] | None:
        """Return rows that can go out without a question; None if there are no such rows."""
        sure = self._sure()
        return self._accepted(sure) if len(sure) else None

    def ask(self, units: Units) -> Iterator[PromptBatch]:
        """Ask about scored units, all at once, and yield their rows."""
        units = units[: int(min(self._room, len(units)))]
        parts = list(self._by_part(units))
        if not parts:
            return
        parts[0][0].oracle.ask_with([(part.oracle, some) for part, some in parts])
        self._asked += len(units)
        self.order.by_score += len(units)
        for part, some in parts:
            self._learn(part, some)
            self.reason = self.reason or part.oracle.refused
            self._count(part, some, "asked")
        before = self.tracker.rows
        for part, some in parts:
            yield from self._rows_out(part, some)
            if not self.tracker.rows_left:
                break
        self.order.by_score_passed += self.tracker.rows - before

    def take(self, count: int, *, scored: bool) -> Iterator[PromptBatch]:
        """Read the next units, and yield rows of known answers; let the proxy score the others, or ask about them."""
        self.size.wanted = min(count, _MOST_SCORED)
        batch = next(self._source, None)
        if batch is None:
            self._ended = True
            return
        part, new = self._opened(batch)
        yield from self._out(part, np.flatnonzero(part.oracle.labels != UNASKED), "known")
        if scored and len(new) and self._can_score:
            self._score(part, new)
        else:
            yield from self._ask_next(part, new)

    def foreseen(self, effort: Callable[[AICall, int, int, float], Effort | None]) -> Iterator[PromptBatch]:
        """Yield rows in a dry run, which asks as many prompts as an earlier run of the question lets expect.

        Raises:
            CancelledError: the query was cancelled.
        """
        parts: list[tuple[_Part, Units]] = []
        known, expected, scored, wanted = 0, Effort(0, 0, 0), 0, self.tracker.rows_left
        self.size.wanted = _MOST_SCORED
        for batch in self.arranged.batches():
            part, new = self._opened(batch)
            if not parts:
                expected = effort(self.call, self.arranged.distinct, wanted, self.order.price) or expected
            labels, weights = part.oracle.labels, part.oracle.population.weights
            known += int(weights[labels == part.oracle.values.index(True)].sum())
            parts.append((part, new))
            if known >= wanted:
                break
            if scores := round(expected.scored) - scored:
                self.proxy(part.oracle).scores(new[:scores])
                scored += len(new[:scores])
            some = new[: int(min(round(expected.asked) - self._asked, self._room))]
            part.oracle.ask(some)
            self._asked += len(some)
            if self._asked >= min(round(expected.asked), self._asked + self._room) and scored >= round(expected.scored):
                break
        left = round(expected.found)
        for part, new in parts:
            yes = np.cumsum(part.oracle.population.weights[new]) <= left
            left -= int(part.oracle.population.weights[new[yes]].sum())
            hit = part.oracle.values.index(True)
            part.oracle.labels[new] = np.where(yes, hit, 1 - hit)
            yield from self._out(part, np.arange(len(part.oracle.labels)), "asked")

    def prediction(self) -> dict[str, Any]:
        """Return the figures of a dry run: the share of its prompts that the model gets."""
        return {"predicted_share": self._asked / max(1, self._read), "learned": True}

    @property
    def seen(self) -> Seen:
        """The scores and answers of the run, for predictions."""
        answers = self.order.answers
        hits = np.where(answers < 0, -1, answers).astype(np.int8)
        return Seen(self.order.scores, hits, np.empty(0), 0, limited=True)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the call site so far, see `CallRecord.promise`."""
        returned, rows = self.tracker.returned, self._rows
        wrong = rows["unasked"]
        return promise_figures(
            targets=str(self.call.promise),
            proxy=self.name or "none",
            rows=rows["asked"] + rows["known"] + rows["left"] + wrong,
            prompts=self._prompts,
            known=rows["known"],
            asked=rows["asked"],
            asked_prompts=self._asked,
            precision=1 - wrong / returned if returned else 1.0,
            held=not self.reason,
            errors=self._errors,
            unseen_errors=wrong,
            unanswered=rows["null"],
            reason=self.reason or "A LIMIT returns some of the rows, so only precision is promised.",
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what the user must know: the rows are fewer than the LIMIT, and some were not asked about."""
        if not self.reason or not self.tracker.rows_left:
            return ()
        said = f"the promise {self.call.promise} is not held, and {self._rows['left']:,} rows are NULL: {self.reason}"
        return (f"{self.call.text}: {said}",)

    @property
    def _is_over(self) -> bool:
        """Return whether each unit was read, and no scored one waits."""
        return self._ended and not len(self.order.best())

    @property
    def _room(self) -> float:
        """The questions that the label budget still allows."""
        budget = None if self.call.promise is None else self.call.promise.label_budget
        return inf if budget is None else budget - self._asked

    @property
    def _units_left(self) -> float:
        return 0 if self._ended else max(1, self.arranged.distinct - self._read)

    @property
    def _can_score(self) -> bool:
        """Return whether a score tells whether rows pass, and whether there is room for rows that wait."""
        yes, no, passed = self._rows["yes"], self._rows["no"], self.tracker.rows
        return self._held <= _MOST_WAITING and abs(passed - yes) <= abs(passed - no)

    def _opened(self, batch: PromptBatch) -> tuple[_Part, Units]:
        """Return some rows as a part, and its units without an answer."""
        one = replace(self.arranged, batches=lambda: iter([batch]))
        population = Population(one, None, self.arguments, self.lister, self.cancelled)
        oracle = Oracle(self.site, self.binding, population, self.cancelled)
        listed = self.lister.listed(batch, 0)
        places = np.asarray([place for place, _, _ in listed], np.int64)
        units = population.units([key for _, _, key in listed]) if listed else np.empty(0, np.int64)
        if not self._read and len(population):
            self.order.price = self.price(oracle)
        self._read += len(population)
        return _Part(batch, oracle, places, units), np.flatnonzero(oracle.labels == UNASKED)

    def _score(self, part: _Part, units: Units) -> None:
        """Let the proxy score units of a part."""
        proxy = self.proxy(part.oracle)
        self.name = proxy.name
        scores = proxy.scores(units).probability(part.oracle.values.index(True))
        part.numbers = np.full(len(part.oracle.labels), -1)
        part.numbers[units] = self.order.add(scores, part.oracle.population.weights[units])
        self._part_of += [(len(self._parts), unit) for unit in units.tolist()]
        self._parts.append(part)
        self._held += part.batch.rows.nbytes

    def _ask_next(self, part: _Part, units: Units) -> Iterator[PromptBatch]:
        """Ask about units as they come; what the label budget does not pay for stays without an answer."""
        some = units[: int(min(self._room, len(units)))]
        before = self.tracker.rows
        yield from self._asked_rows(part, some)
        self.order.asked += len(some)
        self.order.passed += self.tracker.rows - before
        if len(some) < len(units):
            self._refuse()
            yield from self._out(part, units[len(some) :], "left")

    def _learn(self, part: _Part, units: Units) -> None:
        """Learn from the answers about scored units."""
        answers = np.maximum(part.oracle.labels[units], NO_ANSWER)
        yes = answers == part.oracle.values.index(True)
        own = part.numbers[units]
        wrong = (self.order.scores[own] > _LIKELIER_YES) != yes
        self._errors += int(part.oracle.population.weights[units[wrong]].sum())
        self.order.tell(own, np.where(answers < 0, NO_ANSWER, yes))

    def _by_part(self, numbers: Units) -> Iterator[tuple[_Part, Units]]:
        """Yield the parts of scored units with their units."""
        places = np.asarray([self._part_of[number] for number in numbers.tolist()], np.int64).reshape(-1, 2)
        for part in np.unique(places[:, 0]).tolist():
            yield self._parts[part], places[places[:, 0] == part, 1]

    def _sure(self) -> Units:
        """Return the scored units whose rows can go out without a question, because the LIMIT needs no others."""
        needed, free = self.tracker.rows_left, self._allowed - self._rows["unasked"]
        if needed > free or not len(self.order.scores):
            return np.empty(0, np.int64)
        best = self.order.best()
        best = best[self.order.likely[best] >= _LIKELIER_YES]
        rows = np.cumsum(self.order.weights[best])
        return best[: int(min(np.searchsorted(rows, free, "right"), np.searchsorted(rows, needed, "left") + 1))]

    def _accepted(self, numbers: Units) -> Iterator[PromptBatch]:
        """Yield the rows of scored units as if the model had said yes."""
        self.order.tell(numbers, np.full(len(numbers), NO_ANSWER))
        for part, units in self._by_part(numbers):
            part.oracle.labels[units] = part.oracle.values.index(True)
            yield from self._out(part, units, "unasked")

    def _unanswered(self, rows: Iterator[PromptBatch]) -> Iterator[PromptBatch]:
        """Yield the rows that are left, without an answer where the model was not asked."""
        self._refuse()
        left = self.order.best()
        self.order.tell(left, np.full(len(left), NO_ANSWER))
        for part, units in self._by_part(left):
            yield from self._out(part, units, "left")
        self.size.wanted = _MOST_SCORED
        for batch in rows:
            part, new = self._opened(batch)
            yield from self._out(part, np.flatnonzero(part.oracle.labels != UNASKED), "known")
            yield from self._out(part, new, "left")

    def _refuse(self) -> None:
        self.reason = self.reason or SPENT

    @property
    def _allowed(self) -> int:
        """Return how many of the returned rows can be wrong."""
        precision = None if self.call.promise is None else self.call.promise.precision
        return 0 if precision is None else floor((1 - precision) * self.tracker.returned + 1e-9)

    def _asked_rows(self, part: _Part, units: Units) -> Iterator[PromptBatch]:
        """Ask about units without an answer, and yield their rows."""
        part.oracle.ask(units)
        self._asked += len(units)
        self.reason = self.reason or part.oracle.refused
        yield from self._out(part, units, "asked")

    def _out(self, part: _Part, units: Units, how: str) -> Iterator[PromptBatch]:
        """Yield the rows of units with the answers that are known, and count how these came."""
        self._count(part, units, how)
        yield from self._rows_out(part, units)

    def _count(self, part: _Part, units: Units, how: str) -> None:
        """Count the rows of units, and how their answers came."""
        labels, weights = part.oracle.labels[units], part.oracle.population.weights[units]
        yes = part.oracle.values.index(True)
        self._rows[how] += int(weights.sum())
        for name, some in (("null", labels < 0), ("yes", labels == yes), ("no", labels == 1 - yes)):
            self._rows[name] += int(weights[some].sum())
        self._prompts += len(units)

    def _rows_out(self, part: _Part, units: Units) -> Iterator[PromptBatch]:
        """Yield the rows of units with the answers that are known."""
        batch = part.out(units)
        if batch is not None:
            decision = Decision(part.oracle.labels, None)
            yield from answer_rows(self.call, part.oracle, decision, self.lister, self.counters, iter([batch]))


def _rows_of(batch: PromptBatch, chosen: NDArray[np.bool_]) -> PromptBatch:
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
