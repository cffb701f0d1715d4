"""Choose among the ways to find a join's pairs: run one, prove its verdicts, and fall back where the proof fails."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

import numpy as np

from flightllm.common.cached import cached_property
from flightllm.errors import ConfigError, EngineError, MissingExtraError
from flightllm.functions.join_wish import AUTO, BLOCK, CLASSIFY, EMBEDDING, MAP, PAIRS, PIVOT, JoinWish
from flightllm.llm.cost import Work
from flightllm.observe.promise_figures import promise_figures
from flightllm.observe.query_record import CallRecord
from flightllm.operators.call_context import LimitTracker, ModelBinding
from flightllm.operators.joins.asked import PairOracle
from flightllm.operators.joins.candidates import Candidates
from flightllm.operators.joins.classes import ACCEPT, ASK, Classes, Near, with_verdict
from flightllm.operators.joins.exact import AskedPairs
from flightllm.operators.joins.lengths import Lengths
from flightllm.operators.joins.listed import Listed
from flightllm.operators.joins.mapped import FORESEEN, Mapper
from flightllm.operators.joins.pivot import by_pivot, pivot_prompts
from flightllm.operators.joins.proved import Proof
from flightllm.operators.joins.similar import ATTEMPTS, Similar, similar_prompts
from flightllm.operators.joins.values import Ints

_PROOF: Final = 100
"""The least questions that a proof takes, about."""


_Verdicts: TypeAlias = tuple[Classes | Near | None, str]
"""The verdicts of a way and their basis, or None and the reason why the way is left."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A way whose verdicts are known: about how many pairs they leave to ask, the answers so far, and what to prove."""

    left: int
    oracle: PairOracle
    runs: Iterator[tuple[int, _Verdicts]]


@dataclass(frozen=True)
class Ways:
    """The ways to find the pairs of one join."""

    asked: AskedPairs
    candidates: Candidates
    wish: JoinWish
    counters: CallRecord
    _lists: dict[str, Listed] = field(default_factory=dict)

    def matching(self, tracker: LimitTracker) -> Generator[Ints]:
        """Yield the pairs that match.

        Raises:
            EngineError: the engine is gone, or a prompt failed and the call says `on_error => 'fail'`.
            BudgetExceededError: the budget is spent, and the session wants the query to fail then.
            CancelledError: the query was cancelled.
        """
        symmetric, told = self.wish.symmetric, []
        if tracker.limited:
            told.append("a LIMIT asks about few pairs, so the strategy is 'pairs'")
        elif self._binding.collects:
            told.append("a deferred statement asks for all answers at once, so the strategy is 'pairs'")
        else:
            ways, late = list(self._order()), dict[str, _Begun]()
            deltas = {way: self._delta(place, ways) for place, way in enumerate(ways)}
            self._note(self.wish.strategy, told)  # a dry run can end before a way is proved
            for place, way in enumerate(ways):
                others = [self.prices[later] for later in ways[place + 1 :]]
                done = yield from self._tried(way, told, deltas[way], late, min(others, default=None))
                if done:
                    return
            for way, begun in sorted(late.items(), key=lambda one: one[1].left):
                done = yield from self._proved(way, told, deltas[way], begun)
                if done:
                    return
        self._note("pairs", told)
        yield from self.asked.matching(self.candidates, tracker, symmetric=symmetric)
        if self._binding.refusal:
            self._cut_off()
        elif not self._foresees:
            self.counters.promise = self._exact("; ".join(told) or "All pairs are asked.")

    def _cut_off(self) -> None:
        """Say that nothing is promised, because the budget has cut off the questions."""
        self.counters.promise = {**self._exact(self._binding.refusal), "held": False}
        self.asked.runtime.record.warn(
            f"{self.asked.join.ai.text}: the promise {self.wish.targets} is not held, and pairs without an answer are"
            f" left out: {self._binding.refusal}"
        )

    def _tried(
        self, way: str, told: list[str], delta: float | None, late: dict[str, _Begun], limit: int | None
    ) -> Generator[Ints, None, bool]:
        """Yield the pairs that a way finds, if its proof holds; return whether the join is done.

        If the verdicts of the way leave more than `limit` pairs to ask, another way can ask fewer. So the way waits in
        `late`, with what it has asked so far.
        """
        oracle = PairOracle(self.asked, self.candidates, self.counters, self.wish.symmetric)
        runs = enumerate(self._runs(way, oracle, delta))
        for attempt, (classes, how) in runs:
            if classes is None:
                told.append(f"strategy '{way}' is left: {how}")
                continue
            left, rest = 0 if limit is None else self._unsure(classes), chain([(attempt, (classes, how))], runs)
            if limit is not None and left > limit:
                told.append(f"strategy '{way}' waits for the others: its verdicts leave {left:,} pairs to ask")
                late[way] = _Begun(left, oracle, rest)
                return False
            return (yield from self._proved(way, told, delta, _Begun(left, oracle, rest)))
        return False

    def _proved(self, way: str, told: list[str], delta: float | None, begun: _Begun) -> Generator[Ints, None, bool]:
        """Yield the pairs that a way finds, if one of its proofs holds; return whether the join is done."""
        oracle, most = begun.oracle, max(_PROOF, self.prices[PAIRS] // 2)
        for attempt, (classes, how) in begun.runs:
            if classes is None:
                told.append(f"strategy '{way}' is left: {how}")
                continue
            proof = Proof(way, self.candidates, classes, oracle, self.wish, most, self._foresees, attempt)
            proof.delta = delta
            held = proof.prove()
            if not held and self._binding.refusal:
                self._cut_off()
                yield oracle.matches()
                return True
            if held:
                self._note(f"{way}{how}", told)
                self.counters.add(rows=self.candidates.distinct)
                self.counters.promise = proof.figures or None
                yield from proof.matching()
                return True
            told.append(f"strategy '{way}'{how if way == EMBEDDING else ''} is not proved: {proof.reason}")
        return False

    def _unsure(self, classes: Classes | Near) -> int:
        """Return about how many pairs a way asks besides its proof. Without a precision it asks about all matches."""
        targets, candidates = self.wish.targets, self.candidates
        asked = (ASK,) if targets is not None and targets.precision is not None else (ASK, ACCEPT)
        rows = sum(with_verdict(candidates, classes, verdict).rows for verdict in asked)
        return rows * candidates.distinct // max(1, candidates.rows)

    def _delta(self, place: int, ways: list[str]) -> float | None:
        """Return the probability that one proof of a way can be wrong; None for that of the promise.

        Each way has half of what the ways before it left, and the last way has all that is left.
        """
        targets, later = self.wish.targets, place < len(ways) - 1
        attempts = ATTEMPTS if ways[place] == EMBEDDING else 1
        return None if targets is None else targets.delta / (2 ** (place + later) * attempts)

    def _runs(self, way: str, oracle: PairOracle, delta: float | None) -> Iterator[tuple[Classes | Near | None, str]]:
        """Yield the verdicts of a way and their basis, or None and the reason, until a proof holds."""
        if way != EMBEDDING:
            yield self._run(way, oracle)
            return
        found = False
        similar = Similar(self.candidates, self.asked.values, oracle, self.wish, self._foresees, delta)
        try:
            nearest = similar.near()
        except (MissingExtraError, ConfigError, EngineError) as error:
            if self.wish.embeds:
                raise
            yield None, f"the embedding model cannot be used: {error}"
            return
        for near in similar.cuts(nearest):
            found = True
            yield near, f" with the {len(near.pairs):,} nearest pairs of values"
        if not found:
            yield None, "the nearest values match too seldom"

    def _run(self, way: str, oracle: PairOracle) -> tuple[Classes | Near | None, str]:
        """Return the verdicts of a way and their basis, or None and the reason."""
        if way in {CLASSIFY, BLOCK}:
            return self._listed(way).find()
        values, candidates = self.asked.values, self.candidates
        if way == PIVOT:
            return by_pivot(candidates, values, oracle, alike=self._alike), ""
        mapper = Mapper(self.asked.join, values, self.asked.runtime, self._alike)
        found, why = mapper.find(candidates, foreseen=self._foresees)
        if found is None:
            return None, why
        if found is FORESEEN:
            return mapper.classes(found, candidates), " by a property that the model finds"
        return mapper.classes(found, candidates), f" by the question {found}"

    def _order(self) -> Iterator[str]:
        """Yield the ways to try, in their order; nothing where all pairs cost less."""
        prices = self.prices
        if self.wish.strategy != AUTO:
            if self.wish.strategy != PAIRS and prices[self.wish.strategy] < prices[PAIRS]:
                yield self.wish.strategy
            return
        longer = sorted((EMBEDDING, CLASSIFY), key=prices.__getitem__)
        yield from (way for way in (MAP, PIVOT, *longer) if prices[way] < prices[PAIRS])

    @cached_property
    def prices(self) -> dict[str, int]:
        """Return about how many questions each way asks, the proof included."""
        left, right = self.candidates.left, self.candidates.right
        each = len(np.union1d(left, right)) if self._alike else len(left) + len(right)
        pairs = self.candidates.distinct
        if self.wish.symmetric:
            both = len(np.intersect1d(left, right))
            pairs -= min(pairs // 2, both * (both - 1) // 2)
        return {
            PAIRS: pairs,
            MAP: each + 1 + _PROOF,
            PIVOT: pivot_prompts(self.candidates, alike=self._alike) + _PROOF,
            CLASSIFY: self._listed(CLASSIFY).prompts + _PROOF,
            BLOCK: self._listed(BLOCK).prompts + _PROOF,
            EMBEDDING: similar_prompts(self.candidates, self.wish),
        }

    def _listed(self, way: str) -> Listed:
        """Return the way that shows lists of values; it reads the sizes of its prompts once."""
        if way not in self._lists:
            self._lists[way] = Listed(
                self.asked, self.candidates, symmetric=self.wish.symmetric, block=way == BLOCK, foreseen=self._foresees
            )
        return self._lists[way]

    def _note(self, taken: str, told: list[str]) -> None:
        """Say for EXPLAIN which way is taken, why, and what each way costs."""
        why = "".join(f"; {one}" for one in told)
        self.counters.note(0, 0, join=f"strategy {taken}{why}; questions of each strategy, about: {self._costs()}")

    def _costs(self) -> str:
        """Return the questions of each way in words, their prompt tokens, and the price of a model with prices."""
        prices, binding = self.prices, self._binding
        lengths = Lengths.of(self.asked, self.candidates, binding.engine, alike=self._alike)
        works = {way: Work(count, round(count * lengths.pair), 0, count) for way, count in prices.items()}
        single = prices[MAP] - _PROOF
        works[MAP] = Work(prices[MAP], round(single * lengths.value + _PROOF * lengths.pair), 0, prices[MAP])
        for way in (CLASSIFY, BLOCK):
            listed, tokens = prices[way] - _PROOF, lengths.pair + self._listed(way).value_tokens
            works[way] = Work(prices[way], round(listed * tokens + _PROOF * lengths.pair), 0, prices[way])
        told = [", ".join(f"{way} {count:,}" for way, count in prices.items())]
        told.append("tokens: " + ", ".join(f"{way} {work.tokens:,}" for way, work in works.items()))
        if (unit := binding.costs.prices) is not None:
            told.append("price: " + ", ".join(f"{way} {unit.price(work):,.4g}" for way, work in works.items()))
        return "; ".join(told)

    def _exact(self, reason: str) -> dict[str, object]:
        """Return the figures of a join whose pairs are all asked."""
        pairs, rows = self.candidates.distinct, self.candidates.rows
        return promise_figures(
            proxy="none",
            targets=str(self.wish.targets),
            rows=rows,
            prompts=pairs,
            known=0,
            asked=rows,
            asked_prompts=pairs,
            unanswered=0,
            unseen_errors=0,
            held=True,
            reason=reason,
        )

    @property
    def _alike(self) -> bool:
        return len(self.asked.join.sides[0]) == len(self.asked.join.sides[1])

    @property
    def _binding(self) -> ModelBinding:
        return self.asked.runtime.bindings[self.asked.join.ai.binding]

    @property
    def _foresees(self) -> bool:
        return self._binding.asked_share is not None
