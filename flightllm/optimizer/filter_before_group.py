"""Filter by answers about grouping keys before asking the calls that only the groups' measures need.

Filter(f(a(k)), AiMap(a(k), Aggregate(k, m(b), AiMap(b, x))))
  →  Aggregate(k, m(b), AiMap(b, Filter(f(a(k)), AiMap(a(k), x))))

There are as many distinct keys before the aggregate as after it, so the filter costs the same. The other calls then see
only rows of groups that pass. Where no call is below the aggregate, `group_before_ai` does the opposite. A filter with
a promise stays above, because its promise is about groups and not about rows.
"""

from substrait.algebra_pb2 import Expression

from flightllm.optimizer.chain import Chain, all_over, peel
from flightllm.optimizer.group_before_ai import one_set
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Node, Project, call_expressions, has_window, over_input, transform


def filter_before_group(root: Node, functions: Functions) -> Node:
    """Move filters and their AI operators below an aggregate of answers, if they read only grouping keys."""
    return transform(root, lambda node: _sink(node, functions) if isinstance(node, Project) else node)


def _sink(node: Project, functions: Functions) -> Node:
    chain = peel(node, functions)
    if chain is None or chain.cascades or not _filters_only(chain):
        return node
    groups, shown = _through(chain.base, functions)
    result = all_over(chain.columns, shown, functions)
    if result is None or not isinstance(groups, Aggregate) or not one_set(groups):
        return node
    width = groups.input.width
    keys = [*groups.rel.grouping_expressions, *[None] * len(groups.rel.measures)]
    columns = [*(over_input(c, keys, functions) for c in shown), *map(field, range(width, width + chain.calls))]
    steps = [e for s in chain.steps for e in (call_expressions(s) if isinstance(s, tuple) else [s])]
    asked = peel(groups.input, functions)
    if all_over(steps, columns, functions) is None or asked is None or asked.by_rows:
        return node
    below = chain.over(groups.input, lambda e: over_input(e, columns, functions) or e)
    return Project(Aggregate(below, groups.rel), result)


def _through(node: Node, functions: Functions) -> tuple[Node, tuple[Expression, ...]]:
    """Look below the projections on top of `node`; return the node there, and the columns of `node` over it."""
    columns = tuple(map(field, range(node.width)))
    while isinstance(node, Project) and not has_window(node):
        below = all_over(columns, node.expressions, functions)
        if below is None:
            break
        node, columns = node.input, below
    return node, columns


def _filters_only(chain: Chain) -> bool:
    """Return whether the chain ends in a filter, and no node above reads its answers."""
    return all(map(chain.is_plain, chain.columns)) and isinstance(chain.steps[-1], Expression)
