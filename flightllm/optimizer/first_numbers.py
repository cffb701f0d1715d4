"""Stops the AI calls for a window partition once enough of its rows pass for a condition on the rows' numbers.

Filter(n <= 2, Project(row_number() OVER (PARTITION BY k ORDER BY b) AS n, Filter(f(a), AiMap(a, x))))
  →  the same over GroupLimit(Filter(f(a), AiMap(a, Groups(k, x))))

The GroupLimit keeps two rows of each group, in the order of b. With rank() and dense_rank(), it also keeps the ties.

The window function and the condition stay in the plan. QUALIFY is such a condition.
"""

from substrait.algebra_pb2 import Expression

from flightllm.optimizer.chain import Chain, all_over
from flightllm.optimizer.group_limit import Cut, at_most, filtered, limited, plain
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Filter, Node, Project, Ties, has_window, over_input, transform, windows

_TIES = {"row_number": None, "rank": Ties.RANK, "dense_rank": Ties.DENSE_RANK}


def first_numbers(root: Node, functions: Functions) -> Node:
    """Limit each partition to the rows that a condition on row_number(), rank() or dense_rank() can keep."""
    return transform(root, lambda node: _limit(node, functions) if isinstance(node, Filter) else node)


def _limit(node: Filter, functions: Functions) -> Node:
    above: list[Project] = []
    below = node.input
    while isinstance(below, Project) and not has_window(below):
        above.append(below)
        below = below.input
    if not isinstance(below, Project):
        return node
    conjuncts = functions.operands(node.condition, "and")
    for project in above:
        moved = [over_input(c, project.expressions, functions) for c in conjuncts]
        conjuncts = [c for c in moved if c is not None]
    numbers = [_kept(c, below, functions) for c in conjuncts]
    count, name = min((n for n in numbers if n is not None), default=(0, ""))
    chain = None if count < 1 else filtered(below.input, functions)
    limited_ = None if chain is None else _limited(below, chain, count, _TIES[name], functions)
    if limited_ is None:
        return node
    for project in reversed(above):
        limited_ = Project(limited_, project.expressions)
    return Filter(limited_, node.condition)


def _kept(conjunct: Expression, project: Project, functions: Functions) -> tuple[int, str] | None:
    """Return the largest number that a conjunct keeps, and its function; None where it is about other columns."""
    for column in ex.fields(conjunct):
        expression = project.expressions[column]
        if expression.WhichOneof("rex_type") == "window_function":
            name = functions.names[expression.window_function.function_reference]
            most = at_most(conjunct, column, functions) if name in _TIES else None
            return None if most is None else (most, name)
    return None


def _limited(project: Project, chain: Chain, count: int, ties: Ties | None, functions: Functions) -> Node | None:
    """Return the projection over fewer rows; None if another window function needs all rows."""
    found = [w.window_function for w in windows(project)]
    if any(functions.names[w.function_reference] not in _TIES for w in found):
        return None
    alike = {(tuple(map(ex.key, w.partitions)), tuple((ex.key(s.expr), s.direction) for s in w.sorts)) for w in found}
    keys = all_over(found[0].partitions, chain.columns, functions)
    order = all_over((s.expr for s in found[0].sorts), chain.columns, functions)
    if len(alike) > 1 or keys is None or order is None or not plain((*keys, *order), chain, functions):
        return None
    directions = [s.direction for s in found[0].sorts]
    ordered = list(zip(order, directions, strict=True))
    if ties is not None and not ordered:
        return None
    return Project(limited(chain, keys, ordered, Cut(count, ties=ties)), project.expressions)
