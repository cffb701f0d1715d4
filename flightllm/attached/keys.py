"""The keys of the other side of a join, which limit the rows that a source returns."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from flightllm.attached.columns import Column, named
from flightllm.attached.conditions import fits

MOST_KEYS: Final = 10_000
"""The longest list of keys that goes out; with more keys, all rows come back."""
Stopped: TypeAlias = Callable[[], bool]
"""Returns whether nobody wants the keys any more."""


@dataclass(slots=True)
class Keys:
    """The keys for one column: a scan returns the rows with one of them, and can return more rows.

    A query reads its keys before its scans begin. A scan that waits keeps a thread of DataFusion busy, and reading the
    keys could need this thread.
    """

    column: str
    find: Callable[[Stopped], Iterable[pa.RecordBatch]]
    """Yields the keys in batches of one column, with repeats."""
    known: Sequence[pa.Scalar] | None = None
    """The distinct keys without NULL. It is None before they are read, and for more than `MOST_KEYS`."""

    def read(self, stopped: Stopped) -> None:
        """Read the keys."""
        self.known = None
        found: pa.Array | None = None
        for batch in self.find(stopped):
            column = batch.column(0)
            both = column if found is None else pa.concat_arrays([found, column.cast(found.type)])
            found = pc.drop_null(pc.unique(both))
            if len(found) > MOST_KEYS:
                return
        self.known = [] if found is None else list(found)


def among(
    column: Column, keys: Sequence[pa.Scalar], literal: Callable[[pa.Scalar], exp.Expr | None]
) -> exp.Expr | None:
    """Return the condition that a column has one of some keys; None if a key cannot be written."""
    constants = [literal(one) if fits(column.type, one.type) else None for one in keys]
    known = [one for one in constants if one is not None]
    return exp.In(this=column.same(named(column)), expressions=known) if len(known) == len(constants) else None


def shown(column: Column) -> exp.Expr:
    """Return the condition as EXPLAIN shows it: the keys are not known yet."""
    return exp.In(this=column.same(named(column)), expressions=[exp.Var(this="the keys of the join")])
