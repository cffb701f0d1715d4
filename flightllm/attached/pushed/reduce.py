"""Limit what a source returns for a join to the keys of the join's other side.

Join(Scan(crm.orders), k, o.key = k.key)  →  Join(Scan(crm.orders, with the keys of k), k, o.key = k.key)

The keys are found when the scan begins. If there are too many of them, all rows come back. The join stays as it is, so
the keys only save rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from substrait.algebra_pb2 import Expression, JoinRel, ReadRel

from flightllm.attached.keys import Keys
from flightllm.attached.scan import AttachedTable
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    Aggregate,
    Fetch,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SetOp,
    Sort,
    has_window,
    own_messages,
    transform,
    walk,
)

_LEFT: Final = frozenset(
    {
        JoinRel.JOIN_TYPE_INNER,
        JoinRel.JOIN_TYPE_RIGHT,
        JoinRel.JOIN_TYPE_LEFT_SEMI,
        JoinRel.JOIN_TYPE_RIGHT_SEMI,
        JoinRel.JOIN_TYPE_RIGHT_ANTI,
    }
)
"""The joins whose result does not depend on rows of the left side without a partner."""
_RIGHT: Final = frozenset(
    {
        JoinRel.JOIN_TYPE_INNER,
        JoinRel.JOIN_TYPE_LEFT,
        JoinRel.JOIN_TYPE_LEFT_SEMI,
        JoinRel.JOIN_TYPE_RIGHT_SEMI,
        JoinRel.JOIN_TYPE_LEFT_ANTI,
    }
)
_FEWEST: Final = 10_000
"""Tables that are known to have fewer rows come back whole."""
_MOST: Final = 1_000_000
"""A side whose rows are sorted, grouped or joined is computed twice only if its tables have at most so many rows."""
_RELATIONAL: Final = Scan | Filter | Project | Join | Aggregate | Sort | Fetch | SetOp
_WORK: Final = Join | Aggregate | Sort | SetOp


class Tables(Protocol):
    """The tables of a query."""

    def table(self, rel: ReadRel) -> AttachedTable | None:
        """Return the table or part of an attached database that a scan reads; None for each other table."""

    def rows(self, rel: ReadRel) -> int | None:
        """Return the number of rows of a table, about; None if it is not known."""

    def keys(self, side: Node, key: Expression, column: str) -> Keys:
        """Return the values of an expression over a side of a join, as keys for a column."""

    def limited(self, rel: ReadRel, keys: Keys) -> Scan:
        """Return the scan of a table that returns only rows with some keys."""


def reduce_scans(root: Node, functions: Functions, tables: Tables) -> Node:
    """Return the plan in which scans of attached tables get the keys of joins; the same object if there are no keys."""
    reducer = _Reducer(functions, tables)
    return transform(root, lambda node: reducer.joined(node) if isinstance(node, Join) else node)


@dataclass(frozen=True, slots=True)
class _Reducer:
    functions: Functions
    tables: Tables

    def joined(self, node: Join) -> Node:
        """Reduce the larger side of a join that can be reduced."""
        for left in sorted((True, False), key=lambda one: self._size(node.left if one else node.right), reverse=True):
            side, other = (node.left, node.right) if left else (node.right, node.left)
            if node.kind not in (_LEFT if left else _RIGHT) or not self._is_light(other):
                continue
            for column, key in self._equalities(node, left=left):
                reduced = self._reduced(side, column, other, key)
                if reduced is not side:
                    return replace(node, left=reduced) if left else replace(node, right=reduced)
        return node

    def _equalities(self, node: Join, *, left: bool) -> Iterable[tuple[int, Expression]]:
        """Yield the columns of a side that equal an expression over the other side."""
        split = node.left.width
        for operand in [] if node.condition is None else self.functions.operands(node.condition, "and"):
            if self.functions.name(operand) != "equal":
                continue
            one, two = ex.arguments(operand)
            for mine, others in ((one, two), (two, one)):
                column = _column(mine)
                read = ex.fields(others)
                if column is None or (column < split) != left or not read:
                    continue
                if all((i < split) != left for i in read):
                    yield (column, ex.shift(others, -split)) if left else (column - split, others)

    def _is_light(self, side: Node) -> bool:
        """Return whether a side can be computed once more for its keys."""
        nodes = list(walk(side))
        if not all(isinstance(one, _RELATIONAL) for one in nodes):
            return False
        if any(self.functions.is_volatile(e) for one in nodes for m in own_messages(one) for e in _slots(m)):
            return False
        return not any(isinstance(one, _WORK) for one in nodes) or self._size(side) <= _MOST

    def _size(self, side: Node) -> float:
        """Return the number of rows that the tables of a side have together, about."""
        known = [self.tables.rows(one.rel) for one in walk(side) if isinstance(one, Scan)]
        return sum(float("inf") if one is None else one for one in known)

    def _reduced(self, node: Node, column: int, other: Node, key: Expression) -> Node:
        """Return a side whose scan has the keys for one of the side's columns; the same object if no scan can."""
        match node:
            case Scan():
                return self._scan(node, column, other, key)
            case Filter() | Sort():
                below = self._reduced(node.input, column, other, key)
                return node if below is node.input else replace(node, input=below)
            case Project() if not has_window(node):
                place = _column(node.expressions[column])
                below = node.input if place is None else self._reduced(node.input, place, other, key)
                return node if below is node.input else replace(node, input=below)
            case Join() if node.kind == JoinRel.JOIN_TYPE_INNER:
                split = node.left.width
                if column < split:
                    below = self._reduced(node.left, column, other, key)
                    return node if below is node.left else replace(node, left=below)
                below = self._reduced(node.right, column - split, other, key)
                return node if below is node.right else replace(node, right=below)
        return node

    def _scan(self, node: Scan, column: int, other: Node, key: Expression) -> Node:
        table, rows = self.tables.table(node.rel), self.tables.rows(node.rel)
        if table is None or table.keys is not None or (rows is not None and rows < _FEWEST):
            return node
        rel = node.rel
        place = rel.projection.select.struct_items[column].field if rel.HasField("projection") else column
        found = table.table.columns[place]
        if not found.compared or found.problem:
            return node
        return self.tables.limited(rel, self.tables.keys(other, key, found.name))


def _column(expression: Expression) -> int | None:
    """Return the column that an expression is, or that it casts to a wider whole number."""
    if expression.WhichOneof("rex_type") == "cast" and expression.cast.type.WhichOneof("kind") in {"i32", "i64"}:
        return ex.field_index(expression.cast.input)
    return ex.field_index(expression)


def _slots(message: object) -> Iterable[Expression]:
    return [message] if isinstance(message, Expression) else ex.slots(message)  # type: ignore[arg-type]
