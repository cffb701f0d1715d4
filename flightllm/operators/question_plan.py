"""Choose by price which questions about one row share a request, and which wait for the answer of a filter."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from flightllm.operators.call_context import Ranking
from flightllm.operators.question_prices import QuestionPrices

_WORTH: Final = 0.9
"""Questions share a request only if this costs less than this share of one after another: estimates can be 10 % off."""
_HOT: Final = 0.5
"""Above this share of prompt tokens from a prefix cache, the cache is the reason why sharing saves nothing."""

Later: TypeAlias = tuple[tuple[float, tuple[int, ...]], ...]
"""The questions of later steps: the share of the rows that reach the step, and its calls."""
Rounds: TypeAlias = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the questions of a step share a request, and of how many later steps it has the questions too."""

    joined: bool
    steps: int = 0


@dataclass(slots=True)
class QuestionPlan:
    """The choice for calls over the same fields with the same options. One thread uses it."""

    calls: frozenset[int]
    most: int
    """The most questions that a request can have."""
    prices: QuestionPrices
    rows: int
    """The distinct rows that the calls are about, for the prices in EXPLAIN."""
    told: Callable[[str], None]
    """Shows in EXPLAIN what was chosen, and why."""
    auto: bool = False
    """Whether sampled rows must agree before questions share requests."""
    proof: str = ""
    """The agreement of sampled rows, for EXPLAIN."""
    forced: bool = False
    """Whether questions share a request at any price, as those about sampled rows do."""
    _chosen: str = ""
    _known: dict[tuple[tuple[int, ...], Later], Decision] = field(default_factory=dict)
    _costs: dict[tuple[tuple[int, ...], bool], float] = field(default_factory=dict)

    def decide(self, now: tuple[int, ...], later: Later) -> Decision:
        """Return the cheapest way to ask the calls of this step about one row, with those of the steps after it."""
        if self.forced:
            return Decision(joined=True)
        key = now, later
        if key not in self._known:
            self._known[key] = self._decided(now, later)
        return self._known[key]

    def prove(self, proof: str) -> None:
        """Add to EXPLAIN what sampled rows showed."""
        self.proof = proof
        self.told(f"{self._chosen}{proof}")

    def groups(self, calls: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return calls in groups that share a request, of nearly equal size."""
        parts = -(-len(calls) // self.most)
        ends = [len(calls) * part // parts for part in range(parts + 1)]
        return [calls[begin:end] for begin, end in pairwise(ends)]

    def _decided(self, now: tuple[int, ...], later: Later) -> Decision:
        apart = self._apart(now, again=False) + sum(share * self._apart(some, again=True) for share, some in later)
        best, least = Decision(joined=False), float("inf")
        for steps in range(len(later) + 1):
            asked = (*now, *(call for _, some in later[:steps] for call in some))
            first = self._apart(asked, again=False) if len(asked) < 2 else self._joined(asked, again=False)
            rest = (share * self._least(some, again=True) for share, some in later[steps:])
            cost = first + sum(rest)
            if cost < least:
                best, least = Decision(joined=len(asked) > 1, steps=steps), cost
        if {*now, *(call for _, some in later for call in some)} == self.calls:
            self._chosen = self._text(best, least, apart, now, later)
            self.told(f"{self._chosen}{self.proof}")
        return best if least < _WORTH * apart else Decision(joined=False)

    def _least(self, calls: tuple[int, ...], *, again: bool) -> float:
        return min(self._joined(calls, again=again), self._apart(calls, again=again))

    def _joined(self, calls: tuple[int, ...], *, again: bool) -> float:
        groups = self.groups(calls)
        return sum(self._cost(group, again=again or place > 0) for place, group in enumerate(groups))

    def _apart(self, calls: tuple[int, ...], *, again: bool) -> float:
        return sum(self._cost((call,), again=again or place > 0) for place, call in enumerate(calls))

    def _cost(self, calls: tuple[int, ...], *, again: bool) -> float:
        key = calls, again
        if key not in self._costs:
            self._costs[key] = self.prices.cost(calls, again=again)
        return self._costs[key]

    def _text(self, best: Decision, joined: float, apart: float, now: tuple[int, ...], later: Later) -> str:
        """Return what EXPLAIN shows."""
        both = f"{_number(joined * self.rows)} in place of {_number(apart * self.rows)} {self.prices.unit}"
        if joined < _WORTH * apart:
            sizes = [len(now) + sum(len(some) for _, some in later[: best.steps])]
            sizes += [len(some) for _, some in later[best.steps :]]
            most = max(len(group) for size in sizes for group in self.groups(tuple(range(size))))
            waits = ", those of later steps for rows that the filters keep" if best.steps < len(later) else ""
            return f"{most} in one request{waits}, {1 - joined / apart:.0%} cheaper than one after another ({both})"
        why = self._why(later)
        if joined < apart:
            saves = f"one request saves only {1 - joined / apart:.1%} ({both}){why}"
            return f"one after another: {saves}; estimates can be {1 - _WORTH:.0%} off"
        return f"one after another: in one request they cost {joined / apart:.2f} times as much ({both}){why}"

    def _why(self, later: Later) -> str:
        """Return the main reason why a shared request saves nothing; empty where the codes of the answers are it."""
        works = [self.prices.work((call,), again=True) for call in sorted(self.calls)[1:]]
        hit = sum(work.cached_tokens for work in works) / max(1, sum(work.prompt_tokens for work in works))
        if hit >= _HOT:
            return f", because the prefix cache serves {hit:.0%} of the later prompts"
        if later and later[-1][0] < 1:
            return f", because about {1 - later[-1][0]:.0%} of the rows do not need the last ones"
        return ""


def later_steps(ranking: Ranking, calls: frozenset[int], step: int, begun: Collection[int], rounds: Rounds) -> Later:
    """Return which of some calls come later, and how many rows are expected to reach them.

    `rounds` are those of the present step that come later.
    """
    found: list[tuple[float, tuple[int, ...]]] = []
    share, done = 1.0, {*begun, step}
    while True:
        for some in rounds:
            for guarded in (False, True):
                own = tuple(call for call in some if call in calls and (call in ranking.guarded) == guarded)
                if own:
                    needed = max(ranking.guarded.get(call, 1.0) for call in own)
                    found.append((round(share * needed, 2), own))
        if not (rest := ranking.next(done)):
            return tuple(found)
        share *= ranking.share(step)
        step = rest[0]
        done.add(step)
        rounds = ranking.steps[step].rounds


def steps_of(ranking: Ranking, calls: frozenset[int]) -> tuple[tuple[int, ...], Later]:
    """Return which of some calls are asked first, and those that come later."""
    first, *_ = ranking.next(())
    whole = later_steps(ranking, calls, first, (), ranking.steps[first].rounds)
    return whole[0][1], whole[1:]


def _number(value: float) -> str:
    return f"{value:.4g}"
