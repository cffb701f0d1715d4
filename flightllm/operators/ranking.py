"""Choose the order in which an operator tries its filters, from the cost and selectivity seen so far."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flightllm.llm.cost import Work
from flightllm.plan.stages import BoundStep


@dataclass(slots=True)
class _Figures:
    """The cost and selectivity of one step; it starts with the expected cost, and as if half of the rows passed."""

    expected: float
    rows: int = 0
    kept: int = 0
    cost: float = 0.0

    @property
    def rank(self) -> float:
        """Return the cost of dropping one row."""
        cost = (self.cost + self.expected) / (self.rows + 1)
        return cost * (self.rows + 2) / (self.rows - self.kept + 1)


class Ranking:
    """Rank the steps by cost / (1 - selectivity), cheapest first; steps that drop no row come last.

    `expected` is the work of one row in each step, before any row is seen. `cost` turns work into a number. The rank is
    that of Hellerstein and Stonebraker, "Predicate Migration", SIGMOD 1993.
    """

    def __init__(self, steps: Sequence[BoundStep], expected: Sequence[Work], cost: Callable[[Work], float]) -> None:
        self._steps = steps
        self._cost = cost
        self._figures = [_Figures(cost(work)) for work in expected]
        self.learns = sum(step.condition is not None for step in steps) > 1
        """True with several filters, whose order can be learned."""

    def next(self, done: Collection[int]) -> list[int]:
        """Return the steps that can follow the steps in `done`, best first; an empty list after the last step."""
        free = [i for i, s in enumerate(self._steps) if i not in done and s.after.issubset(done)]
        return sorted(free, key=self._key)

    def _key(self, step: int) -> tuple[bool, float, int]:
        return (self._steps[step].condition is None, self._figures[step].rank, step)

    def filtered(self, step: int, rows: int, kept: int) -> None:
        """Record that a step kept `kept` of `rows` rows."""
        self._figures[step].rows += rows
        self._figures[step].kept += kept

    def paid(self, step: int, work: Work) -> None:
        """Record the work that a prompt of a step took."""
        if self.learns:
            self._figures[step].cost += self._cost(work)


def all_at_once(calls: int) -> tuple[tuple[BoundStep, ...], Ranking]:
    """Return a single step that asks all calls for all rows, and its ranking."""
    steps = (BoundStep((tuple(range(calls)),), None, frozenset()),)
    return steps, Ranking(steps, [Work()], lambda _: 0.0)
