"""Ask about a group's rows only until one of them decides the group.

Aggregate(k, Filter(f(a), AiMap(a, x)))          →  Aggregate(k, GroupLimit(Filter(f(a), AiMap(a, Groups(k, x)))))
Aggregate(k, max(b), Filter(f(a), AiMap(a, x)))  →  the same; the groups' rows by b, the largest first, NULL last
Aggregate(k, first_value(b ORDER BY c), …)       →  the same; the groups' rows by c
Aggregate(k, any_value(b), …)                    →  the same, until a row passes in which b is not NULL
Aggregate(k, bool_or(a), AiMap(a, x))            →  the same without the filter, until a is true; likewise bool_and
Aggregate(k, max(b) FILTER (WHERE a), …)         →  the same; the groups' rows by b
Aggregate(k, max(b), min(c), …)                  →  Aggregate(k, max(b), min(c), UnionAll(…, …)), one input per order
Aggregate(k, UnionAll(Filter(f(a), AiMap(a, x)), y))  →  Aggregate(k, UnionAll(GroupLimit(…), y))
Filter(n > 2, Aggregate(k, count(*) AS n, …))    →  the same with three rows a group, if only the filter reads n
Fetch(n, Aggregate(k, Filter(f(a), AiMap(a, x))))  →  the same, until n groups have a row; with a Sort by k between
                                                      them, until the first n groups have one
Fetch(n, Aggregate(k, g(a), AiMap(a, x)))        →  the same with all rows of n groups, for measures such as sum
Fetch(n, Sort(b, Filter(f(a), AiMap(a, x))))     →  Fetch(n, Sort(b, GroupLimit(…))), until n rows pass, by b

DISTINCT is an aggregate without measures, and DISTINCT ON is an aggregate of first values. Without keys all rows are
one group. The aggregate and the sort stay in the plan, so the result has the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from substrait.algebra_pb2 import AggregateFunction, AggregateRel, Expression, SetRel, SortField

from flightllm.optimizer.chain import Chain, all_over
from flightllm.optimizer.group_before_ai import one_set
from flightllm.optimizer.group_limit import Cut, Order, asking, limited, more_than, plain
from flightllm.optimizer.semi_join_before_ai import repeatable
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    ALL_ROWS,
    Aggregate,
    Fetch,
    Filter,
    Node,
    Project,
    SetOp,
    Sort,
    children,
    has_window,
    over_input,
    with_children,
)

_EXTREMES = {"max": SortField.SORT_DIRECTION_DESC_NULLS_LAST, "min": SortField.SORT_DIRECTION_ASC_NULLS_LAST}
_REVERSED = {
    SortField.SORT_DIRECTION_ASC_NULLS_FIRST: SortField.SORT_DIRECTION_DESC_NULLS_LAST,
    SortField.SORT_DIRECTION_ASC_NULLS_LAST: SortField.SORT_DIRECTION_DESC_NULLS_FIRST,
    SortField.SORT_DIRECTION_DESC_NULLS_FIRST: SortField.SORT_DIRECTION_ASC_NULLS_LAST,
    SortField.SORT_DIRECTION_DESC_NULLS_LAST: SortField.SORT_DIRECTION_ASC_NULLS_FIRST,
}
_FALSE = Expression(literal=Expression.Literal(boolean=False))
_MOST_ORDERS = 4
"""An aggregate whose measures need more orders of the rows stays as it is."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How many rows of a node are enough: any rows, or the first ones in an order."""

    rows: int
    order: Order = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """The row of a group that decides a measure: the first one in `order` for which `condition` is true."""

    order: Order = ()
    condition: Expression | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Return a value that is equal for equal rows."""
        return tuple((ex.key(e), d) for e, d in self.order), ex.key(self.condition)

    def over(self, columns: Sequence[Expression], functions: Functions) -> "_Row | None":
        """Rewrite the row over the input of a projection; None where that is impossible."""
        moved = all_over((e for e, _ in self.order), columns, functions)
        condition = None if self.condition is None else over_input(self.condition, columns, functions)
        if moved is None or (condition is None and self.condition is not None):
            return None
        return _Row(tuple(zip(moved, (d for _, d in self.order), strict=True)), condition)


@dataclass(frozen=True, slots=True)
class _Need:
    """The rows that an aggregate or a LIMIT needs of its input: `count` rows of each group, for each of `rows`."""

    keys: tuple[Expression, ...]
    rows: tuple[_Row, ...]
    count: int = 1
    groups: _Wanted | None = None


def first_of_group(root: Node, functions: Functions) -> Node:
    """Limit the input of an aggregate, or of a sort under a LIMIT, to the rows that decide its result."""
    return _visit(root, functions, None)


def _visit(node: Node, functions: Functions, wanted: _Wanted | None) -> Node:
    below = None
    match node:
        case Fetch():
            bounds = ex.bounds(node.rel)
            below = None if bounds is None or not bounds[1] else _Wanted(bounds[0] + bounds[1])
        case Sort() if wanted is not None and not wanted.order:
            below = _Wanted(wanted.rows, _sorts(node))
        case Project() if wanted is not None and not has_window(node):
            row = _Row(wanted.order).over(node.expressions, functions)
            below = None if row is None else _Wanted(wanted.rows, row.order)
    node = with_children(node, tuple(_visit(c, functions, below) for c in children(node)))
    match node:
        case Aggregate():
            return _limit_aggregate(node, functions, wanted)
        case Sort() if below is not None:
            fewer = _narrow(node.input, _Need((), (_Row(below.order),), below.rows), functions)
            return node if fewer is None else Sort(fewer, node.rel)
        case Project(input=Filter(input=Aggregate() as grouped, condition=condition)):
            count = _counted(grouped, condition, node.expressions, functions)
            counted = None if count is None else _grouped(grouped, functions, (_Row((), _filter(grouped)),), count)
            return node if counted is None else Project(Filter(counted, condition), node.expressions)
        case _:
            return node


def _sorts(node: Sort) -> Order:
    return tuple((s.expr, s.direction) for s in node.rel.sorts)


def no_sets(rel: AggregateRel) -> bool:
    """Return whether all rows are one group."""
    return not rel.grouping_expressions and len(rel.groupings) <= 1


def _limit_aggregate(node: Aggregate, functions: Functions, wanted: _Wanted | None) -> Node:
    found = [_deciding(m, functions) for m in node.rel.measures] or [_Row()]
    rows = {r.key: r for r in found if r is not None}
    keyed = node.rel.grouping_expressions and len(rows) == 1 and all(r.condition is None for r in rows.values())
    decided = None
    if None not in found and len(rows) <= _MOST_ORDERS:
        decided = _grouped(node, functions, tuple(rows.values()), 1, wanted if keyed else None)
    if decided is None and wanted is not None:
        decided = _grouped(node, functions, (_Row(),), ALL_ROWS, wanted)
    return decided or node


def _deciding(measure: AggregateRel.Measure, functions: Functions) -> _Row | None:
    """Return the row that decides a measure; None where no single row does."""
    function = measure.measure
    name = functions.names[function.function_reference]
    condition = measure.filter if measure.HasField("filter") else None
    sorts = tuple((s.expr, s.direction) for s in function.sorts)
    if name in _EXTREMES:
        return _Row(((function.arguments[0].value, _EXTREMES[name]),), condition)
    if name == "any_value" and condition is None:
        return _Row((), functions.call("is_not_null", function.arguments[0].value))
    if name == "first_value":
        return _Row(sorts, condition)
    if name == "last_value" and sorts:
        return _Row(tuple((e, _REVERSED[d]) for e, d in sorts), condition)
    if name in {"bool_or", "bool_and"} and condition is None:
        said = function.arguments[0].value
        return _Row((), said if name == "bool_or" else functions.call("equal", said, _FALSE))
    return None


def _grouped(
    node: Aggregate, functions: Functions, rows: tuple[_Row, ...], count: int, wanted: _Wanted | None = None
) -> Aggregate | None:
    if not one_set(node) and not no_sets(node.rel):
        return None
    keys = tuple(node.rel.grouping_expressions)
    if wanted is not None and wanted.order:
        order = _Row(wanted.order).over((*keys, *[None] * len(node.rel.measures)), functions)
        wanted = None if order is None else _Wanted(wanted.rows, order.order)
    fewer = _narrow(node.input, _Need(keys, rows, count, wanted), functions)
    return None if fewer is None else Aggregate(fewer, node.rel)


def _narrow(node: Node, need: _Need, functions: Functions) -> Node | None:
    """Return fewer rows of `node` that are enough; None where that saves no call."""
    match node:
        case SetOp() if node.rel.op == SetRel.SET_OP_UNION_ALL:
            # A group that one input keeps can lack rows of another input, which counts its groups for itself.
            need = replace(need, groups=None)
            inputs = tuple(_narrow(i, need, functions) or i for i in node.inputs)
            changed = with_children(node, inputs)
            return None if changed is node else changed
        case Project(input=SetOp() as union) if not has_window(node):
            moved = _moved(need, node.expressions, functions)
            fewer = None if moved is None else _narrow(union, moved, functions)
            return None if fewer is None else Project(fewer, node.expressions)
        case _:
            chain = asking(node, functions)
            moved = None if chain is None else _moved(need, chain.columns, functions)
            return None if chain is None or moved is None else _limited(chain, moved, functions)


def _moved(need: _Need, columns: Sequence[Expression], functions: Functions) -> _Need | None:
    keys = all_over(need.keys, columns, functions)
    rows = [r.over(columns, functions) for r in need.rows]
    first = None if need.groups is None else _Row(need.groups.order).over(columns, functions)
    known = tuple(r for r in rows if r is not None)
    if keys is None or len(known) < len(rows) or (need.groups is not None and first is None):
        return None
    groups = None if need.groups is None or first is None else _Wanted(need.groups.rows, first.order)
    return _Need(keys, known, need.count, groups)


def _limited(chain: Chain, need: _Need, functions: Functions) -> Node | None:
    conditions = [r.condition for r in need.rows if r.condition is not None]
    filters = [step for step in chain.steps if isinstance(step, Expression)]
    whole = need.count == ALL_ROWS
    if whole and (need.groups is None or not need.keys):
        return None
    if (not whole and all(map(chain.is_plain, [*filters, *conditions]))) or any(map(functions.is_volatile, conditions)):
        return None
    orders = [r.order for r in need.rows] + ([] if need.groups is None else [need.groups.order])
    if not plain([*need.keys, *(e for order in orders for e, _ in order)], chain, functions):
        return None
    if len(need.rows) > 1 and not repeatable(chain.base, functions):
        return None
    limit, first = (None, ()) if need.groups is None else (need.groups.rows, need.groups.order)
    cuts = [Cut(need.count, limit, r.condition, first) for r in need.rows]
    parts = tuple(limited(chain, need.keys, r.order, cut) for r, cut in zip(need.rows, cuts, strict=True))
    return parts[0] if len(parts) == 1 else SetOp(parts, SetRel(op=SetRel.SET_OP_UNION_ALL))


def _filter(node: Aggregate) -> Expression | None:
    """Return the FILTER of the only measure."""
    measure = node.rel.measures[0]
    return measure.filter if measure.HasField("filter") else None


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
        and function.invocation != AggregateFunction.AGGREGATION_INVOCATION_DISTINCT
        and all(
            a.value.WhichOneof("rex_type") == "literal" and a.value.literal.WhichOneof("literal_type") != "null"
            for a in function.arguments
        )
    )
