"""What is known of a value that an expression makes, and the budget that all of a plan's values share."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from flightllm.config import LimitsConfig

BATCH_ROWS = 32_768
"""Rows that one call of a function is given at most, as a rule."""
_LARGEST_VALUE, _LARGEST_SUM = 8, 2
"""Parts of a query's memory that the values of one call in a batch, and those of all calls together, may take."""
_CONSTANT_BYTES = 16 << 20
"""What a constant may take: it is folded while other clients wait."""
_STEPS, _CONSTANT_STEPS = 4e8, 4e7
"""Elementary steps, of about a nanosecond or two, that nothing can interrupt: of a batch, and of constants."""


class UnboundedError(Exception):
    """An expression can take more than its share; the text says why."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Why a statement can take more than its share."""

    reason: str
    while_planned: bool = True
    """Planning can evaluate that part: the optimizer merges projections, then folds what has become constant."""

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason


@dataclass(frozen=True, slots=True)
class Value:
    """Upper bounds for the values of one expression: bytes of one, its elements where it is a list, and more."""

    bytes: float
    items: float = 1
    each: float = 0
    """Bytes of the largest element."""
    number: float = inf
    """The greatest magnitude, where it is a number; of dates, in days."""
    total: float = inf
    """Bytes of all rows together."""
    constant: bool = False
    literal: str | None = None
    """The text of a text literal."""
    exact: float | None = None
    """The number or date that a literal is."""
    distinct: float = inf
    """Different values among all rows, were each as frequent; infinite where nothing is known."""

    def spread(self, rows: float) -> float:
        """Return the bytes of so many rows."""
        return min(self.bytes * rows, self.total)

    @property
    def element(self) -> float:
        """Return the bytes of one element."""
        return self.each or self.bytes


FLAG = Value(1, number=1, total=inf, distinct=2)
"""A condition."""


def largest(values: Iterable[Value]) -> Value:
    """Return bounds that hold for any of some values."""
    found = list(values) or [Value(8)]
    return Value(
        max(v.bytes for v in found),
        max(v.items for v in found),
        max(v.each for v in found),
        max(v.number for v in found),
        sum(v.total for v in found),
        all(v.constant for v in found),
        distinct=sum(v.distinct for v in found),
    )


class Budget:
    """Adds up what the calls of a plan make in one batch, and how long they take."""

    def __init__(self, limits: LimitsConfig | None) -> None:
        memory = inf if limits is None else limits.memory_bytes
        self.kept = memory / 4
        """Bytes that an aggregate or a window may keep of values which DataFusion cannot spill."""
        self._value, self._sum = memory / _LARGEST_VALUE, memory / _LARGEST_SUM
        self._any = limits is None
        self._bytes = self._steps = self._constant_bytes = self._constant_steps = 0.0
        self.exceeded: Unbounded | None = None
        """What takes too much memory or time, though only where the statement runs."""

    def charge(self, name: str, made: Value, steps: float, rows: float) -> None:
        """Count one call.

        Raises:
            UnboundedError: it, or all so far, take too much.
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
            raise UnboundedError(f"{name} can take so long on large values that nothing stops it meanwhile")

    def keep(self, name: str, size: float) -> None:
        """Count what an operator keeps in memory while it runs; see `exceeded`."""
        if size > self.kept and not self._any and self.exceeded is None:
            self.exceeded = Unbounded(f"{name} can keep {_size(size)} in memory", while_planned=False)

    def stall(self, name: str) -> None:
        """Count what an operator does without a break for longer than it should; see `exceeded`."""
        if not self._any and self.exceeded is None:
            self.exceeded = Unbounded(f"{name} can take so long that nothing stops it meanwhile", while_planned=False)


def _size(size: float) -> str:
    return "any size" if size == inf else f"{size:,.0f} bytes"
