"""Upper bounds on the values of an expression, and the budget that all values of a plan share."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from flightllm.config import LimitsConfig

BATCH_ROWS = 32_768
"""The usual upper limit on the rows of one function call."""
_LARGEST_VALUE, _LARGEST_SUM = 8, 2
"""Divisors of a query's memory: the limit for one call's values in a batch, and for all calls' values together."""
_CONSTANT_BYTES = 16 << 20
"""Bytes that constants can take: planning evaluates them, while other clients wait."""
_STEPS, _CONSTANT_STEPS = 4e8, 4e7
"""Steps of one to two nanoseconds that cannot be interrupted: the limit for a batch, and for constants."""


class UnboundedError(Exception):
    """An expression can exceed the budget; the text says why."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Why a statement can exceed its limits."""

    reason: str
    while_planned: bool = True
    """True where planning can evaluate that part: the optimizer merges projections, then folds constants."""

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """Upper bounds on an expression's values: the bytes of one value, its elements if it is a list, and more.

    An example: a table with the texts 'a', 'bb' and 'ccc' in the column `s`. The table's statistics know only the sum
    of the bytes, 6, so `s` has at most 1.5 * 6 / 3 + 8 = 11 bytes a row.

    |expression|bytes|items|number|total|
    |---|---|---|---|---|
    |`s`|11|1|inf|33|
    |`length(s)`|8|1|88|inf|
    |`repeat(s, 100)`|1100|1|inf|inf|
    """

    bytes: float
    items: float = 1
    each: float = 0
    """Bytes of the largest element of a list; 0 for other values."""
    number: float = inf
    """The greatest magnitude of a number; for dates, in days."""
    total: float = inf
    """Bytes of all rows together."""
    constant: bool = False
    literal: str | None = None
    """The text of a text literal."""
    exact: float | None = None
    """The number or date of a literal."""
    distinct: float = inf
    """Distinct values among all rows, if all were equally frequent; infinite where unknown."""

    def spread(self, rows: float) -> float:
        """Return the bytes of `rows` rows."""
        return min(self.bytes * rows, self.total)

    @property
    def element(self) -> float:
        """Return the bytes of one element."""
        return self.each or self.bytes


FLAG = ValueBounds(1, number=1, total=inf, distinct=2)
"""The bounds of a condition."""


def largest(values: Iterable[ValueBounds]) -> ValueBounds:
    """Return bounds that hold for each of some values."""
    found = list(values) or [ValueBounds(8)]
    return ValueBounds(
        max(v.bytes for v in found),
        max(v.items for v in found),
        max(v.each for v in found),
        max(v.number for v in found),
        sum(v.total for v in found),
        all(v.constant for v in found),
        distinct=sum(v.distinct for v in found),
    )


class BoundsTally:
    """Adds up the bytes that a plan's calls make in one batch, and the steps that they take."""

    def __init__(self, limits: LimitsConfig | None) -> None:
        memory = inf if limits is None else limits.memory_bytes
        self.kept = memory / 4
        """Bytes that an aggregate or a window can keep of values that DataFusion cannot spill."""
        self._value, self._sum = memory / _LARGEST_VALUE, memory / _LARGEST_SUM
        self._any = limits is None
        self._bytes = self._steps = self._constant_bytes = self._constant_steps = 0.0
        self.exceeded: Unbounded | None = None
        """The first operator that exceeds memory or time while the statement runs, but not while it is planned."""

    def charge(self, name: str, made: ValueBounds, steps: float, rows: float) -> None:
        """Count one call.

        Raises:
            UnboundedError: this call, or all calls so far, exceed the budget.
        """
        if self._any:
            return
        size = made.bytes if made.constant else made.spread(rows)
        if made.bytes > self._value or size > self._value:
            raise UnboundedError(f"{name} can make values of {_size(max(size, made.bytes))}")
        self._bytes += size
        self._steps += steps
        if made.constant:
            self._constant_bytes += made.bytes
            self._constant_steps += steps
        if self._bytes > self._sum or self._constant_bytes > _CONSTANT_BYTES:
            raise UnboundedError(f"{name} and the other functions can make values of {_size(self._bytes)}")
        if self._steps > _STEPS or self._constant_steps > _CONSTANT_STEPS:
            raise UnboundedError(f"{name} can run too long on large values without a chance to stop it")

    def keep(self, name: str, size: float) -> None:
        """Count the bytes that an operator keeps in memory while it runs; see `exceeded`."""
        if size > self.kept and not self._any and self.exceeded is None:
            self.exceeded = Unbounded(f"{name} can keep {_size(size)} in memory", while_planned=False)

    def stall(self, name: str) -> None:
        """Record that an operator can run too long without a chance to stop it; see `exceeded`."""
        if not self._any and self.exceeded is None:
            self.exceeded = Unbounded(f"{name} can run too long without a chance to stop it", while_planned=False)


def _size(size: float) -> str:
    return "any size" if size == inf else f"{size:,.0f} bytes"
