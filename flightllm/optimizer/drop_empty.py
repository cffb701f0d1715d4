"""Drop AI calls over rows that cannot occur or cannot change the result, and drop the empty inputs of unions.

Filter(false, AiMap(a, x))                      →  Filter(false, x), with NULL for the answers
Join(Filter(false, x), AiMap(a, y))             →  Join(Filter(false, x), y); likewise for all inputs that
                                                   `emptiness.deciders` names
UnionAll(Filter(false, x), y)                   →  y

A union whose first input has no rows takes its column names from the other input.
"""

from substrait.algebra_pb2 import SetRel

from flightllm.optimizer.unasked import without_calls
from flightllm.plan.emptiness import deciders, is_empty
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import AiMap, Node, SetOp, children, has_ai, transform, with_children


def drop_empty(root: Node, functions: Functions) -> Node:
    """Remove AI operators that the plan shows to be irrelevant, and remove the inputs without rows from unions."""
    return _drop(root, functions)


def _drop(node: Node, functions: Functions) -> Node:
    if not has_ai(node):
        return node
    if is_empty(node, functions):
        return transform(node, _without_calls)
    inputs = tuple(
        transform(child, _without_calls)
        if any(is_empty(other, functions) for other in deciders(node, at))
        else _drop(child, functions)
        for at, child in enumerate(children(node))
    )
    result = with_children(node, inputs)
    return _united(result, functions) if isinstance(result, SetOp) else result


def _without_calls(node: Node) -> Node:
    return without_calls(node, range(len(node.calls))) if isinstance(node, AiMap) else node


def _united(node: SetOp, functions: Functions) -> Node:
    if node.rel.op != SetRel.SET_OP_UNION_ALL:
        return node
    kept = tuple(i for i in node.inputs if not is_empty(i, functions))
    if not kept or len(kept) == len(node.inputs):
        return node
    return kept[0] if len(kept) == 1 else SetOp(kept, node.rel)
