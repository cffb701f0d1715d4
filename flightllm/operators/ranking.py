"""The order in which an operator tries its filters, from what its own rows showed so far."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flightllm.model.cost import Work
from flightllm.plan.stages import BoundStep


@dataclass(slots=True)
class _Figures:
    """What one step took and let through; before there is any, what is expected and half of the rows are taken."""

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
    """Rank the steps by cost / (1 - selectivity), cheapest first; those that drop no row come last.

    `expected` is the work of one row in each step, before any is seen; `cost` weighs work. The rank is that of
    Hellerstein and Stonebraker, "Predicate Migration", SIGMOD 1993.
    """

    def __init__(self, steps: Sequence[BoundStep], expected: Sequence[Work], cost: Callable[[Work], float]) -> None:
        self._steps = steps
        self._cost = cost
        self._figures = [_Figures(cost(work)) for work in expected]
        self.learns = sum(step.condition is not None for step in steps) > 1
        """There is an order to be found: several filters."""

    def next(self, done: Collection[int]) -> list[int]:
        """Return the steps that can come after those that are `done`, the best first; none after the last."""
        free = [i for i, s in enumerate(self._steps) if i not in done and s.after.issubset(done)]
        return sorted(free, key=self._key)

    def _key(self, step: int) -> tuple[bool, float, int]:
        return (self._steps[step].condition is None, self._figures[step].rank, step)

    def filtered(self, step: int, rows: int, kept: int) -> None:
        """Learn that of `rows` a step kept so many."""
        self._figures[step].rows += rows
        self._figures[step].kept += kept

    def paid(self, step: int, work: Work) -> None:
        """Learn what a prompt of a step took."""
        if self.learns:
            self._figures[step].cost += self._cost(work)


def all_at_once(calls: int) -> tuple[tuple[BoundStep, ...], Ranking]:
    """Return the one step that asks all calls for all rows, and its ranking."""
    steps = (BoundStep((tuple(range(calls)),), None, frozenset()),)
    return steps, Ranking(steps, [Work()], lambda _: 0.0)
