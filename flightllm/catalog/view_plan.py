"""What is found out about a view and kept: what its text reads, what it weighs, its plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from flightllm.common.names import RESERVED, TableName

if TYPE_CHECKING:
    from flightllm.catalog.entries import Entry


@dataclass(frozen=True, slots=True)
class Weight:
    """Terms along the deepest path of a query's plan, the parts that it has, and how deep queries are nested in it.

    Only queries in expressions count for that, as in IN (SELECT …): each level of them doubles the time to plan.
    """

    depth: int
    parts: int
    nested: int


@dataclass(frozen=True, slots=True)
class Reads:
    """What a query weighs by itself, and how often it reads each table."""

    own: Weight
    tables: Mapping[TableName, int]
    levels: Mapping[TableName, int]
    """How deep it reads a table in queries nested in expressions."""

    @property
    def changing(self) -> bool:
        """Tell whether it reads tables of the server's own, whose rows change all the time."""
        return any(name.schema in RESERVED for name in self.tables)


class ViewPlan:
    """What is found out about a view; once something changes that the view reads, it gets another one by `renewed`."""

    __slots__ = ("lock", "planned", "reads", "weight", "words")

    def __init__(self, reads: Reads | None = None, words: frozenset[str] | None = None) -> None:
        self.lock = Lock()
        """Whoever plans it holds this, and no other view's."""
        self.reads = reads
        self.words = words
        """The words of its text."""
        self.weight: Weight | None = None
        """Together with the views it reads."""
        self.planned: Entry | None = None

    def renewed(self) -> "ViewPlan":
        """Return what still holds: what follows from the text alone."""
        return ViewPlan(self.reads, self.words)
