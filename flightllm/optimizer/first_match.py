"""For a semi, anti or mark join's other side, ask about equal rows only until one of them passes.

Semi(x, Filter(f(a), AiMap(a, y)))            →  Semi(x, GroupLimit(Filter(f(a), AiMap(a, Groups(k, y)))))
Fetch(n, Semi(x, Filter(f(a), AiMap(a, y))))  →  the same, until n groups have a row; y has partners of x only

A group has rows with equal values in the columns that the join's condition reads: the join cannot tell them apart.
EXISTS, IN and their negations are such joins.
"""

from dataclasses import replace

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.optimizer.chain import Chain, all_over
from flightllm.optimizer.group_limit import Cut, filtered, limited, plain
from flightllm.optimizer.join_before_ai import compares_sides
from flightllm.optimizer.semi_join_before_ai import repeatable, same
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Fetch, Join, Node, Project, children, has_window, over_input, with_children
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT

_LEFT_SEMI = JoinRel.JOIN_TYPE_LEFT_SEMI
_SEMI = frozenset({JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_RIGHT_SEMI})


def first_match(root: Node, functions: Functions) -> Node:
    """Limit the side that a semi, anti or mark join does not keep to one row of each group of equal rows."""
    return _visit(root, functions, None)


def _visit(node: Node, functions: Functions, limit: int | None) -> Node:
    """Visit the plan; `limit` is how many rows of `node` are enough; any rows will do."""
    match node:
        case Fetch():
            bounds = ex.bounds(node.rel)
            below = None if bounds is None or bounds[1] is None else bounds[0] + bounds[1]
            return with_children(node, (_visit(node.input, functions, below),))
        case Project() if not has_window(node):
            return with_children(node, (_visit(node.input, functions, limit),))
        case Join():
            inputs = (_visit(node.left, functions, None), _visit(node.right, functions, None))
            return _limit(with_children(node, inputs), functions, limit)
        case _:
            return with_children(node, tuple(_visit(c, functions, None) for c in children(node)))


def _limit(node: Node, functions: Functions, limit: int | None) -> Node:
    if not isinstance(node, Join) or node.kind not in LEFT_KEPT | RIGHT_KEPT:
        return node
    from_left = node.kind in LEFT_KEPT
    kept, other = (node.left, node.right) if from_left else (node.right, node.left)
    chain = filtered(other, functions)
    if chain is None:
        return node
    start = kept.width if from_left else 0
    read = () if node.condition is None else ex.fields(node.condition)
    places = sorted(c - start for c in read if 0 <= c - start < other.width)
    keys = all_over(map(field, places), chain.columns, functions)
    if keys is None or not plain(keys, chain, functions):
        return node
    partners = None if limit is None or node.kind not in _SEMI else _partners(node, kept, start, chain, functions)
    found = limited(chain, keys) if partners is None else limited(partners, keys, cut=Cut(limit=limit))
    return with_children(node, (kept, found) if from_left else (found, kept))


def _partners(node: Join, kept: Node, start: int, chain: Chain, functions: Functions) -> Chain | None:
    """Return the chain over the rows that have a partner on the kept side; None if that is unknown.

    The condition must only compare columns for equality, so that rows of different groups have different partners.
    """
    from_left = node.kind in LEFT_KEPT
    split = node.left.width
    if node.condition is None or chain.by_rows or not repeatable(kept, functions):
        return None
    conjuncts = functions.operands(node.condition, "and")
    if not all(compares_sides(c, split, functions) and _columns_only(c) for c in conjuncts):
        return None
    width = chain.base.width
    seen: list[Expression | None] = [None] * (node.left.width + node.right.width)
    for i in range(kept.width):
        seen[i if from_left else split + i] = field(width + i)
    for i, column in enumerate(chain.columns):
        seen[start + i] = column if chain.is_plain(column) else None
    condition = over_input(node.condition, seen, functions)
    if condition is None:
        return None
    base = chain.base
    there = isinstance(base, Join) and base.kind == _LEFT_SEMI and same(base.right, kept)
    if there and isinstance(base, Join) and ex.key(base.condition) == ex.key(condition):
        return chain
    return replace(chain, base=Join(base, kept, _LEFT_SEMI, condition))


def _columns_only(conjunct: Expression) -> bool:
    return all(ex.field_index(a) is not None for a in ex.arguments(conjunct))
