"""The tables that a query's text reads, and its complexity."""

from collections.abc import Mapping
from dataclasses import dataclass

from flightllm.common.names import RESERVED, TableName


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
