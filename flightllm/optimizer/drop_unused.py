"""Drop AI calls whose answers are never read.

SELECT count(*) FROM (SELECT id, ai_gen('…', x) FROM t)  →  no call at all
"""

from substrait.algebra_pb2 import JoinRel, SetRel

from flightllm.optimizer.unasked import without_calls
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import (
    Aggregate,
    AiJoin,
    AiMap,
    Fetch,
    Filter,
    GroupLimit,
    Groups,
    Join,
    Node,
    Number,
    Project,
    Scan,
    SetOp,
    Sort,
    call_expressions,
    children,
    has_ai,
    with_children,
)

_RIGHT_KEPT = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK})


def drop_unused(root: Node, functions: Functions) -> Node:
    """Remove the AI calls whose column no node above reads; NULL takes their place in the output."""
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
    unread = {i for i in range(len(node.calls)) if width + i not in needed}
    own = [e for i, c in enumerate(node.calls) if i not in unread for e in call_expressions([c])]
    below = frozenset(c for c in needed if c < width).union(*map(ex.fields, own))
    pruned = with_children(node, (_prune(node.input, below),))
    return without_calls(pruned, unread) if unread and isinstance(pruned, AiMap) else pruned


def _reads(node: Node, needed: frozenset[int]) -> tuple[frozenset[int], ...]:
    """Return, for each input of `node`, the columns that `node` reads to compute its own columns `needed`."""
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
        case Number() | Groups() | GroupLimit():
            return (frozenset(range(node.input.width)),)
        case SetOp():
            all_columns = frozenset(range(node.width))
            return (needed if node.rel.op == SetRel.SET_OP_UNION_ALL else all_columns,) * len(node.inputs)
        case Join():
            return _join_reads(node, needed)
        case Scan() | AiMap() | AiJoin():
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
