"""Ask about a group's rows only until one of them passes, where one row decides the group.

Aggregate(k, Filter(f(a), AiMap(a, x)))          →  Aggregate(k, GroupLimit(Filter(f(a), AiMap(a, Groups(k, x)))))
Aggregate(k, max(b), Filter(f(a), AiMap(a, x)))  →  the same; the groups' rows by b, the largest first, NULL last
Aggregate(k, first_value(b ORDER BY c), …)       →  the same; the groups' rows by c
Filter(n > 2, Aggregate(k, count(*) AS n, …))    →  the same with three rows a group, if only the filter reads n
Fetch(n, Aggregate(k, Filter(f(a), AiMap(a, x))))  →  the same, until n groups have a row

DISTINCT is an aggregate without measures, and DISTINCT ON is an aggregate of first values. Without keys all rows are
one group. The aggregate stays in the plan, so the result has the same rows.
"""

from collections.abc import Sequence

from substrait.algebra_pb2 import AggregateFunction, AggregateRel, Expression, SortField

from flightllm.optimizer.chain import Chain, all_over
from flightllm.optimizer.group_before_ai import one_set
from flightllm.optimizer.group_limit import filtered, limited, more_than, plain
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    Aggregate,
    Fetch,
    Filter,
    Node,
    Project,
    children,
    has_window,
    over_input,
    with_children,
)

_Order = Sequence[tuple[Expression, "SortField.SortDirection.ValueType"]]
_EXTREMES = {"max": SortField.SORT_DIRECTION_DESC_NULLS_LAST, "min": SortField.SORT_DIRECTION_ASC_NULLS_LAST}


def first_of_group(root: Node, functions: Functions) -> Node:
    """Limit the input of an aggregate to the rows of each group that decide its result."""
    return _visit(root, functions, None)


def _visit(node: Node, functions: Functions, limit: int | None) -> Node:
    """Visit the plan; `limit` is how many rows of `node` are enough; any rows will do."""
    below = None
    if isinstance(node, Fetch):
        bounds = ex.bounds(node.rel)
        below = None if bounds is None or bounds[1] is None else bounds[0] + bounds[1]
    elif isinstance(node, Project) and not has_window(node):
        below = limit
    node = with_children(node, tuple(_visit(c, functions, below) for c in children(node)))
    match node:
        case Aggregate():
            return _limit_aggregate(node, functions, limit)
        case Project(input=Filter(input=Aggregate() as grouped, condition=condition)):
            count = _counted(grouped, condition, node.expressions, functions)
            if count is None:
                return node
            fewer = _grouped(grouped, functions, (), count)
            return node if fewer is grouped else Project(Filter(fewer, condition), node.expressions)
        case _:
            return node


def no_sets(rel: AggregateRel) -> bool:
    """Return whether all rows are one group."""
    return not rel.grouping_expressions and len(rel.groupings) <= 1


def _limit_aggregate(node: Aggregate, functions: Functions, limit: int | None) -> Node:
    if not node.rel.measures:
        return _grouped(node, functions, (), 1, limit)
    found = [_order(m, functions) for m in node.rel.measures]
    orders = [o for o in found if o is not None]
    if len(orders) < len(found) or len({tuple((ex.key(e), d) for e, d in o) for o in orders}) > 1:
        return node
    return _grouped(node, functions, orders[0], 1, limit)


def _order(measure: AggregateRel.Measure, functions: Functions) -> _Order | None:
    """Return the order whose first row decides the measure; None if one row does not decide it."""
    if measure.HasField("filter"):
        return None
    function = measure.measure
    name = functions.names[function.function_reference]
    if name in _EXTREMES:
        return [(function.arguments[0].value, _EXTREMES[name])]
    if name == "first_value":
        return [(s.expr, s.direction) for s in function.sorts]
    return None


def _grouped(node: Aggregate, functions: Functions, order: _Order, count: int, limit: int | None = None) -> Aggregate:
    if not one_set(node) and not no_sets(node.rel):
        return node
    chain = filtered(node.input, functions)
    if chain is None:
        return node
    keys = all_over(node.rel.grouping_expressions, chain.columns, functions)
    over = _over(order, chain, functions)
    if keys is None or over is None or not plain(keys, chain, functions):
        return node
    return Aggregate(limited(chain, keys, over, count, limit if keys else None), node.rel)


def _over(order: _Order, chain: Chain, functions: Functions) -> _Order | None:
    """Return an order rewritten over a chain's base; None if that is impossible."""
    moved = [(over_input(e, chain.columns, functions), d) for e, d in order]
    known = [(e, d) for e, d in moved if e is not None]
    return known if len(known) == len(moved) and plain((e for e, _ in known), chain, functions) else None


def _counted(node: Aggregate, condition: Expression, above: Sequence[Expression], functions: Functions) -> int | None:
    """Return how many rows decide a condition on a group's row count; None if other expressions read the count."""
    width = len(node.rel.grouping_expressions)
    if len(node.rel.measures) != 1 or not _counts_rows(node.rel.measures[0], functions):
        return None
    conjuncts = functions.operands(condition, "and")
    reading = [c for c in conjuncts if width in ex.fields(c)]
    if len(reading) != 1 or any(width in ex.fields(e) for e in above):
        return None
    most = more_than(reading[0], width, functions)
    return most if most is not None and most > 0 else None


def _counts_rows(measure: AggregateRel.Measure, functions: Functions) -> bool:
    function = measure.measure
    return (
        functions.names[function.function_reference] == "count"
        and not measure.HasField("filter")
        and function.invocation != AggregateFunction.AGGREGATION_INVOCATION_DISTINCT
        and all(
            a.value.WhichOneof("rex_type") == "literal" and a.value.literal.WhichOneof("literal_type") != "null"
            for a in function.arguments
        )
    )
