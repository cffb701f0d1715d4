"""Before asking, drop the rows of groups that HAVING drops, where HAVING reads no answer.

Filter(n > 9, Aggregate(k, count(*) AS n, avg(a), AiMap(a, x)))
  →  the same, but x has only the rows with count(*) OVER (PARTITION BY k) > 9

Counts, minima and maxima have the same value over a window. A group can have more rows below filters that read answers
than above them. So below filters, only a lower bound on the number of rows can be used. HAVING stays in the plan.
"""

from collections.abc import Sequence

from substrait.algebra_pb2 import AggregateFunction, AggregateRel, Expression

from flightllm.optimizer.chain import Chain, all_over, peel
from flightllm.optimizer.first_of_group import no_sets
from flightllm.optimizer.group_before_ai import one_set
from flightllm.optimizer.group_limit import more_than, plain
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Filter, Node, Project, over_input, transform

_EXACT = frozenset({"count", "min", "max"})


def having_before_ai(root: Node, functions: Functions) -> Node:
    """Filter below AI operators by the conditions of HAVING on plain measures."""
    return transform(root, lambda node: _filter(node, functions) if isinstance(node, Filter) else node)


def _filter(node: Filter, functions: Functions) -> Node:
    above: list[Project] = []
    below = node.input
    conjuncts = functions.operands(node.condition, "and")
    while isinstance(below, Project):
        moved = [over_input(c, below.expressions, functions) for c in conjuncts]
        conjuncts = [c for c in moved if c is not None]
        above.append(below)
        below = below.input
    if not isinstance(below, Aggregate) or not (one_set(below) or no_sets(below.rel)):
        return node
    chain = peel(below.input, functions)
    rows = None if chain is None or chain.keeps_its_rows else _rows(below, chain, conjuncts, functions)
    if chain is None or rows is None:
        return node
    result: Node = Aggregate(Project(chain.over(rows, lambda e: e), chain.columns), below.rel)
    for project in reversed(above):
        result = Project(result, project.expressions)
    return Filter(result, node.condition)


def _rows(node: Aggregate, chain: Chain, conjuncts: Sequence[Expression], functions: Functions) -> Node | None:
    """Return the rows of the chain's base in groups that HAVING can keep; None where HAVING does not restrict them."""
    keys = all_over(node.rel.grouping_expressions, chain.columns, functions)
    if keys is None or not plain(keys, chain, functions):
        return None
    width = chain.base.width
    over: list[Expression | None] = list(keys)
    windows: list[Expression] = []
    for measure in node.rel.measures:
        window = _window(measure, keys, chain, functions)
        over.append(None if window is None else field(width + len(windows)))
        windows += [] if window is None else [window]
    filters = any(isinstance(step, Expression) for step in chain.steps)
    said = [c for c in conjuncts if not filters or _is_least(c, node, functions)]
    known = [e for c in said if any(i >= len(keys) for i in ex.fields(c)) if (e := over_input(c, over, functions))]
    condition = functions.conjunction(e for e in known if not functions.is_volatile(e))
    if condition is None:
        return None
    columns = tuple(map(field, range(width)))
    return Project(Filter(Project(chain.base, (*columns, *windows)), condition), columns)


def _is_least(conjunct: Expression, node: Aggregate, functions: Functions) -> bool:
    """Return whether a conjunct requires a minimum number of rows."""
    keys = len(node.rel.grouping_expressions)
    for place, measure in enumerate(node.rel.measures):
        if functions.names[measure.measure.function_reference] == "count":
            least = more_than(conjunct, keys + place, functions)
            if least is not None:
                return True
    return False


def _window(
    measure: AggregateRel.Measure, keys: Sequence[Expression], chain: Chain, functions: Functions
) -> Expression | None:
    """Return a measure as a window function over the chain's base; None if its value there can differ."""
    function = measure.measure
    name = functions.names[function.function_reference]
    distinct = function.invocation == AggregateFunction.AGGREGATION_INVOCATION_DISTINCT
    if measure.HasField("filter") or distinct or name not in _EXACT:
        return None
    arguments = all_over((a.value for a in function.arguments), chain.columns, functions)
    if arguments is None or not plain(arguments, chain, functions):
        return None
    unbounded = Expression.WindowFunction.Bound(unbounded=Expression.WindowFunction.Bound.Unbounded())
    window = Expression.WindowFunction(
        function_reference=function.function_reference,
        partitions=keys,
        lower_bound=unbounded,
        upper_bound=unbounded,
        bounds_type=Expression.WindowFunction.BOUNDS_TYPE_ROWS,
    )
    for argument in arguments:
        window.arguments.add(value=argument)
    return Expression(window_function=window)
