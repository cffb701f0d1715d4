"""Sort before asking where a query needs only the first rows, so that asking stops once enough rows have passed.

Fetch(Sort(k, Filter(f(a), AiMap(a, x))))  →  Fetch(Filter(f(a), AiMap(a, Sort(k, x))))

Filters and AI operators keep the order of their input where the query's result needs it, so the rows and their order
stay the same. Below a join, an aggregate or another sort, they do not keep it, so this rule does not change a LIMIT
there.
"""

from substrait.algebra_pb2 import Expression

from flightllm.optimizer.chain import all_over, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import AiMap, Fetch, Filter, Node, Project, Sort, has_window, with_children


def sort_before_ai(root: Node, functions: Functions) -> Node:
    """Move the Sort of the query's LIMIT below filters and AI operators, where the sort keys read no answer."""
    return _sink(root, functions, limited=False)


def _sink(node: Node, functions: Functions, *, limited: bool) -> Node:
    """Look for the sort below nodes that keep the order."""
    match node:
        case Sort() if limited:
            return _sorted_first(node, functions)
        case Project() if has_window(node):
            return node
        case Fetch() | Filter() | Project() | AiMap():
            limited = limited or isinstance(node, Fetch)
            return with_children(node, (_sink(node.input, functions, limited=limited),))
        case _:
            return node


def _sorted_first(node: Sort, functions: Functions) -> Node:
    chain = peel(node.input, functions)
    if chain is None or chain.keeps_its_rows or not any(isinstance(s, Expression) for s in chain.steps):
        return node
    keys = all_over(ex.slots(node.rel), chain.columns, functions)
    if keys is None or not all(map(chain.is_plain, keys)):
        return node
    below = Sort(chain.base, ex.with_slots(node.rel, keys))
    return Project(chain.over(below, lambda e: e), chain.columns)
