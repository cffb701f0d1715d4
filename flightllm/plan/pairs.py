"""Builds an outer, semi, anti or mark join from its numbered sides and the matching pairs of rows."""

from collections.abc import Iterable

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Join, Node, Project

LEFT_KEPT = frozenset({JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_LEFT_ANTI, JoinRel.JOIN_TYPE_LEFT_MARK})
RIGHT_KEPT = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK})


def restore(node: Join, pairs: Node, left: Node, right: Node, functions: Functions) -> Node:
    """Return a tree with the result of `node`.

    `left` and `right` are the inputs of `node`, with row numbers where unmatched rows matter. `pairs` has the columns
    of `left`, then the columns of `right`. The number is the last column of a side.
    """

    def equal(a: int, b: int) -> Expression:
        return functions.call("equal", field(a), field(b))

    def columns(joined: Node, *kept: Iterable[int]) -> Node:
        return Project(joined, tuple(field(c) for part in kept for c in part))

    left_columns, right_columns = range(node.left.width), range(node.right.width)
    left_number, right_number = left.width - 1, right.width - 1
    first, second = left.width, pairs.width
    if node.kind in LEFT_KEPT:
        numbers = Project(pairs, (field(left_number),))
        joined = Join(left, numbers, node.kind, equal(left_number, first))
        return columns(joined, left_columns, range(first, joined.width))
    if node.kind in RIGHT_KEPT:
        numbers = Project(pairs, (field(first + right_number),))
        joined = Join(numbers, right, node.kind, equal(0, 1 + right_number))
        return columns(joined, right_columns, range(right.width, joined.width))
    if node.kind == JoinRel.JOIN_TYPE_RIGHT:
        joined = Join(pairs, right, node.kind, equal(first + right_number, second + right_number))
        return columns(joined, left_columns, _shifted(right_columns, second))
    joined = Join(left, pairs, JoinRel.JOIN_TYPE_LEFT, equal(left_number, first + left_number))
    if node.kind == JoinRel.JOIN_TYPE_LEFT:
        return columns(joined, left_columns, _shifted(right_columns, first + left.width))
    pair_number = first + left.width + right_number
    both = Join(joined, right, JoinRel.JOIN_TYPE_OUTER, equal(pair_number, joined.width + right_number))
    return columns(both, left_columns, _shifted(right_columns, joined.width))


def _shifted(columns: Iterable[int], by: int) -> Iterable[int]:
    return (c + by for c in columns)
