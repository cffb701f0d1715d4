"""Filter by the answers of one AI operator before the next operator sends prompts.

Filter(f(a), AiMap(b, AiMap(a, x)))  →  AiMap(b, Filter(f(a), AiMap(a, x)))
Filter(f(a), AiMap((a, b), x))       →  AiMap(b, Filter(f(a), AiMap(a, x))), columns reordered
Filter(f(k), Aggregate(k, AiMap(x)))  →  Aggregate(k, Filter(f(k), AiMap(x)))

`plan.pushdown` has already put predicates that need no answer below the operators. A filter stays above the calls that
a sample of their rows calibrates. Filters with a promise come last: their promise then is about the rows of the result.
"""

from substrait.algebra_pb2 import Expression

from flightllm.optimizer.group_before_ai import one_set
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    Aggregate,
    AiMap,
    Filter,
    Node,
    Project,
    Sort,
    by_rows,
    has_ai,
    has_window,
    over_input,
    transform,
)


def filter_before_ai(root: Node, functions: Functions) -> Node:
    """Push each conjunct below the AI operators whose answers it does not read, and through projections and keys."""
    return transform(root, lambda node: _push(node, functions) if isinstance(node, Filter) else node)


def _push(node: Filter, functions: Functions) -> Node:
    if not has_ai(node.input):
        return node
    conjuncts = functions.operands(node.condition, "and")
    stable = [c for c in conjuncts if not functions.is_volatile(c)]
    below, remaining = _sink(node.input, stable, functions)
    if len(remaining) == len(stable):
        return node
    remaining += [c for c in conjuncts if functions.is_volatile(c)]
    return _filtered(below, remaining, functions)


def _sink(node: Node, conjuncts: list[Expression], functions: Functions) -> tuple[Node, list[Expression]]:
    """Move the conjuncts that can go below `node` there; return the new node and the conjuncts that stay above."""
    match node:
        case Filter():
            own = functions.operands(node.condition, "and")
            return _filtered(node.input, [*own, *conjuncts], functions), []
        case Sort():
            return Sort(_filtered(node.input, conjuncts, functions), node.rel), []
        case AiMap():
            passes = not by_rows(node)
            down = [c for c in conjuncts if passes and all(i < node.input.width for i in ex.fields(c))]
            stay = [c for c in conjuncts if c not in down]
            return _split(AiMap(_filtered(node.input, down, functions), node.calls), stay, functions)
        case Aggregate() if one_set(node) and has_ai(node.input):
            columns = [*node.rel.grouping_expressions, *[None] * len(node.rel.measures)]
            pairs = [(c, over_input(c, columns, functions) if ex.fields(c) else None) for c in conjuncts]
            moved = [m for _, m in pairs if m is not None]
            return Aggregate(_filtered(node.input, moved, functions), node.rel), [c for c, m in pairs if m is None]
        case Project() if not has_window(node):
            pairs = [(c, over_input(c, node.expressions, functions)) for c in conjuncts]
            moved = [m for _, m in pairs if m is not None]
            stay = [c for c, m in pairs if m is None]
            return Project(_filtered(node.input, moved, functions), node.expressions), stay
        case _:
            return node, conjuncts


def _split(node: AiMap, conjuncts: list[Expression], functions: Functions) -> tuple[Node, list[Expression]]:
    """Ask the calls of the conjunct that needs the fewest, filter by it, then ask the other calls.

    A conjunct that needs a call with a promise comes after the others.
    """
    width = node.input.width
    needed = [{i - width for i in ex.fields(c) if i >= width} for c in conjuncts]
    promises = {i for i, call in enumerate(node.calls) if call.ai.cascades}
    first = min(needed, key=lambda calls: (bool(calls & promises), len(calls)), default=set())
    late_sample = any(call.ai.by_rows for i, call in enumerate(node.calls) if i not in first)
    if not first or len(first) == len(node.calls) or late_sample:
        return node, conjuncts
    order = [*sorted(first), *(i for i in range(len(node.calls)) if i not in first)]
    places = [*range(width), *(width + order.index(i) for i in range(len(node.calls)))]
    early = [ex.substitute(c, lambda i: field(places[i])) for c, n in zip(conjuncts, needed, strict=True) if n <= first]
    asked = AiMap(node.input, tuple(node.calls[i] for i in order[: len(first)]))
    rest = AiMap(_filtered(asked, early, functions), tuple(node.calls[i] for i in order[len(first) :]))
    late = [c for c, n in zip(conjuncts, needed, strict=True) if not n <= first]
    return Project(rest, tuple(map(field, places))), late


def _filtered(node: Node, conjuncts: list[Expression], functions: Functions) -> Node:
    condition = functions.conjunction(conjuncts)
    return node if condition is None else Filter(node, condition)
