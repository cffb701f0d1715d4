"""The cached facts about a view: the tables that its text reads, its complexity, and its plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from flightllm.common.names import RESERVED, TableName

if TYPE_CHECKING:
    from flightllm.catalog.entries import Entry


@dataclass(frozen=True, slots=True)
class Weight:
    """A query's complexity: the terms on its plan's deepest path, its parts, and its depth of nested queries.

    Only queries in expressions count as nested, as in IN (SELECT …): each level doubles the time to plan.
    """

    depth: int
    parts: int
    nested: int


@dataclass(frozen=True, slots=True)
class Reads:
    """The complexity of a query's own text, and how often the query reads each table."""

    own: Weight
    tables: Mapping[TableName, int]
    levels: Mapping[TableName, int]
    """For each table, the nesting depth of the queries in expressions around it."""

    @property
    def changing(self) -> bool:
        """Return whether the query reads system tables, whose rows change all the time."""
        return any(name.schema in RESERVED for name in self.tables)


class ViewPlan:
    """The cached facts about a view. A change of a table that the view reads replaces them by `renewed()`."""

    __slots__ = ("lock", "planned", "reads", "weight", "words")

    def __init__(self, reads: Reads | None = None, words: frozenset[str] | None = None) -> None:
        self.lock = Lock()
        """Held by the thread that plans this view; a thread holds the lock of one view at a time."""
        self.reads = reads
        self.words = words
        """The words of the view's text."""
        self.weight: Weight | None = None
        """The complexity together with the views that this view reads."""
        self.planned: Entry | None = None

    def renewed(self) -> "ViewPlan":
        """Return only the facts that follow from the text, which stay valid."""
        return ViewPlan(self.reads, self.words)
