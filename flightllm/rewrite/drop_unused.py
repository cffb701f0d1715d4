"""Drop AI calls whose answers nobody reads.

SELECT count(*) FROM (SELECT id, ai_gen('…', x) FROM t)  →  no call at all
"""

from substrait.algebra_pb2 import JoinRel, SetRel

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    Aggregate,
    AiMap,
    Fetch,
    Filter,
    Join,
    Node,
    Number,
    Project,
    Scan,
    SetOp,
    Sort,
    children,
    has_ai,
    with_children,
)

_RIGHT_KEPT = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK})


def drop_unused(root: Node, functions: Functions) -> Node:
    """Remove the AI calls whose column is read nowhere above; their place in the output is taken by NULL."""
    del functions
    return _prune(root, frozenset(range(root.width)))


def _prune(node: Node, needed: frozenset[int]) -> Node:
    if not has_ai(node):
        return node
    if isinstance(node, AiMap):
        return _prune_calls(node, needed)
    read = _reads(node, needed)
    return with_children(node, tuple(_prune(c, r) for c, r in zip(children(node), read, strict=True)))


def _prune_calls(node: AiMap, needed: frozenset[int]) -> Node:
    width = node.input.width
    kept = [c for i, c in enumerate(node.calls) if width + i in needed]
    own = [e for c in kept for e in (*c.arguments, *([] if c.when is None else [c.when]))]
    below = frozenset(c for c in needed if c < width).union(*map(ex.fields, own))
    input_ = _prune(node.input, below)
    if len(kept) == len(node.calls):
        return with_children(node, (input_,))
    smaller = AiMap(input_, tuple(kept)) if kept else input_
    places = iter(range(width, width + len(kept)))
    answers = [field(next(places)) if width + i in needed else ex.null(c.type) for i, c in enumerate(node.calls)]
    return Project(smaller, (*map(field, range(width)), *answers))


def _reads(node: Node, needed: frozenset[int]) -> tuple[frozenset[int], ...]:
    """Return, for each input of `node`, the columns it needs so that `needed` of its own come out right."""
    match node:
        case Filter():
            return (needed | ex.fields(node.condition),)
        case Project():
            return (frozenset().union(*(ex.fields(node.expressions[c]) for c in needed)),)
        case Aggregate():
            return (frozenset().union(*map(ex.fields, ex.slots(node.rel))),)
        case Sort():
            return (needed.union(*map(ex.fields, ex.slots(node.rel))),)
        case Fetch():
            return (needed,)
        case Number():
            return (frozenset(range(node.input.width)),)
        case SetOp():
            all_columns = frozenset(range(node.width))
            return (needed if node.rel.op == SetRel.SET_OP_UNION_ALL else all_columns,) * len(node.inputs)
        case Join():
            return _join_reads(node, needed)
        case Scan() | AiMap():
            return ()


def _join_reads(node: Join, needed: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
    split = node.left.width
    condition = frozenset() if node.condition is None else ex.fields(node.condition)
    if node.kind in _RIGHT_KEPT:
        needed = frozenset(c + split for c in needed if c < node.right.width)
    elif node.width < split + node.right.width:  # a semi, anti or mark join keeps the left side
        needed = frozenset(c for c in needed if c < split)
    read = needed | condition
    return frozenset(c for c in read if c < split), frozenset(c - split for c in read if c >= split)
