"""Cut rows off before they reach the model: LIMIT, and ORDER BY … LIMIT on keys that need no answer.

Fetch(Project(AiMap(x)))        →  Project(AiMap(Fetch(x)))
Fetch(Sort(key, AiMap(x)))      →  AiMap(Fetch(Sort(key, x)))
Fetch(UnionAll(AiMap(x), y))    →  Fetch(UnionAll(AiMap(Fetch(x)), y)), likewise the kept side of an outer join
Fetch(Sort(key, UnionAll(…)))   →  Fetch(Sort(key, UnionAll(AiMap(Fetch(Sort(key, x))), y)))

AI operators keep the order of their input where the query needs it, so the rows and their order stay the same.

A Fetch stays above an operator whose calls are calibrated by its rows, because it would change their sample. A Sort
goes below it. The operator then sends the prompts that the Fetch needs, and those of the sample.
"""

from substrait.algebra_pb2 import FetchRel, JoinRel, SetRel

from flightllm.optimizer.chain import all_over, peel
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    AiMap,
    Fetch,
    Join,
    Node,
    Project,
    SetOp,
    Sort,
    has_ai,
    has_window,
    keeps_its_rows,
    transform,
    with_children,
)


def limit_before_ai(root: Node, functions: Functions) -> Node:
    """Move each Fetch, and the Sort below it, below the projections and AI operators that keep the number of rows."""
    return transform(
        root, lambda node: _push(node, functions) if isinstance(node, Fetch) and has_ai(node.input) else node
    )


def _push(node: Fetch, functions: Functions) -> Node:
    match node.input:
        case AiMap() as ai if not keeps_its_rows(ai):
            return AiMap(_push(Fetch(ai.input, node.rel), functions), ai.calls)
        case Project() as project if not has_window(project) and has_ai(project.input):
            return Project(_push(Fetch(project.input, node.rel), functions), project.expressions)
        case Sort(input=AiMap() as ai) as sort if _reads_only(sort, ai.input.width):
            return _push(Fetch(AiMap(Sort(ai.input, sort.rel), ai.calls), node.rel), functions)
        case Sort(input=Project() as project) as sort if not has_window(project) and has_ai(project.input):
            keys = all_over(ex.slots(sort.rel), project.expressions, functions)
            if keys is None:
                return node
            below = Sort(project.input, ex.with_slots(sort.rel, keys))
            return Project(_push(Fetch(below, node.rel), functions), project.expressions)
        case Sort(input=SetOp(inputs=inputs, rel=union)) as sort if union.op == SetRel.SET_OP_UNION_ALL:
            first = tuple(_first_rows(i, sort, node.rel, functions) for i in inputs)
            return with_children(node, (with_children(sort, (with_children(sort.input, first),)),))
        case SetOp(inputs=inputs, rel=union) if union.op == SetRel.SET_OP_UNION_ALL:
            return with_children(node, (with_children(node.input, tuple(_bounded(i, node.rel) for i in inputs)),))
        case Join(left=left, right=right, kind=kind, condition=condition) as join:
            crossed = kind == JoinRel.JOIN_TYPE_INNER and condition is None
            left = _bounded(left, node.rel) if crossed or kind == JoinRel.JOIN_TYPE_LEFT else left
            right = _bounded(right, node.rel) if crossed or kind == JoinRel.JOIN_TYPE_RIGHT else right
            return with_children(node, (with_children(join, (left, right)),))
        case _:
            return node


def _bounded(node: Node, rel: FetchRel) -> Node:
    """Limit an input of a union or an outer join to the rows that the Fetch above it can use."""
    bounds = ex.bounds(rel)
    below = node
    while isinstance(below, Project | AiMap):
        below = below.input
    if bounds is None or bounds[1] is None or isinstance(below, Fetch) or not has_ai(node):
        return node
    return Fetch(node, ex.at_most(bounds[0] + bounds[1]))


def _first_rows(node: Node, sort: Sort, rel: FetchRel, functions: Functions) -> Node:
    """Keep the rows of a union's input that can be among the first rows of all, where that needs no answer."""
    chain, keys = peel(node, functions), list(ex.slots(sort.rel))
    known = None if chain is None else all_over(keys, chain.columns, functions)
    if chain is None or known is None or any(map(functions.is_volatile, keys)):
        return node
    if not all(map(chain.is_plain, known)) or _bounded(node, rel) is node:
        return node
    return _bounded(Sort(node, sort.rel), rel)


def _reads_only(sort: Sort, width: int) -> bool:
    return all(c < width for slot in ex.slots(sort.rel) for c in ex.fields(slot))
