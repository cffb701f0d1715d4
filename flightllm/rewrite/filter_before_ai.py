"""Move predicates that need no answer below the AI operators, so that fewer rows reach the model.

Filter(a AND ai, AiMap(x))  →  Filter(ai, AiMap(Filter(a, x)))

Of several AI predicates the first filters before the second is asked. Predicates sink through projections, sorts,
joins, unions and the keys of aggregates only where an AI operator is below; all else is DataFusion's own work.
"""

from collections.abc import Callable, Iterable

from substrait.algebra_pb2 import Expression, JoinRel, SetRel

from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Aggregate, AiMap, Filter, Join, Node, Project, SetOp, Sort, has_ai, transform
from flightllm.rewrite.through import has_window, over_input

_KEEPS_LEFT = frozenset(
    {
        JoinRel.JOIN_TYPE_INNER,
        JoinRel.JOIN_TYPE_LEFT,
        JoinRel.JOIN_TYPE_LEFT_SEMI,
        JoinRel.JOIN_TYPE_LEFT_ANTI,
        JoinRel.JOIN_TYPE_LEFT_MARK,
    }
)
_KEEPS_RIGHT = frozenset({JoinRel.JOIN_TYPE_INNER, JoinRel.JOIN_TYPE_RIGHT})


def filter_before_ai(root: Node, functions: Functions) -> Node:
    """Push the conjuncts that read no AI column below the AI operators."""
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
    rest = functions.conjunction(remaining)
    return below if rest is None else Filter(below, rest)


def _sink(node: Node, conjuncts: list[Expression], functions: Functions) -> tuple[Node, list[Expression]]:
    """Put what can go below `node` there; return the new node and the conjuncts that stay above."""
    match node:
        case Filter():
            merged = functions.conjunction([*functions.operands(node.condition, "and"), *conjuncts])
            return Filter(node.input, merged or node.condition), []
        case AiMap():
            down, stay = _split(conjuncts, lambda read: all(c < node.input.width for c in read))
            return AiMap(_filtered(node.input, down, functions), node.calls), stay
        case Sort():
            return Sort(_filtered(node.input, conjuncts, functions), node.rel), []
        case Project() if not has_window(node):
            pairs = [(c, over_input(c, node.expressions, functions)) for c in conjuncts]
            moved = [m for _, m in pairs if m is not None]
            return Project(_filtered(node.input, moved, functions), node.expressions), [
                c for c, m in pairs if m is None
            ]
        case Aggregate() if len(node.rel.groupings) == 1:
            keys = tuple(node.rel.grouping_expressions[i] for i in node.rel.groupings[0].expression_references)
            down, stay = _split(conjuncts, lambda read: bool(read) and all(c < len(keys) for c in read))
            pairs = [(c, over_input(c, keys, functions)) for c in down]
            moved = [m for _, m in pairs if m is not None]
            stay += [c for c, m in pairs if m is None]
            return Aggregate(_filtered(node.input, moved, functions), node.rel), stay
        case SetOp() if node.rel.op in {SetRel.SET_OP_UNION_ALL, SetRel.SET_OP_UNION_DISTINCT}:
            return SetOp(tuple(_filtered(i, conjuncts, functions) for i in node.inputs), node.rel), []
        case Join():
            return _sink_into_join(node, conjuncts, functions)
        case _:
            return node, conjuncts


def _sink_into_join(node: Join, conjuncts: list[Expression], functions: Functions) -> tuple[Node, list[Expression]]:
    split = node.left.width
    left: list[Expression] = []
    right: list[Expression] = []
    if node.kind in _KEEPS_LEFT and has_ai(node.left):
        left, conjuncts = _split(conjuncts, lambda read: bool(read) and all(c < split for c in read))
    if node.kind in _KEEPS_RIGHT and has_ai(node.right):
        right, conjuncts = _split(conjuncts, lambda read: bool(read) and all(c >= split for c in read))
    moved = [ex.shift(c, -split) for c in right]
    joined = Join(
        _filtered(node.left, left, functions), _filtered(node.right, moved, functions), node.kind, node.condition
    )
    return joined, conjuncts


def _filtered(node: Node, conjuncts: Iterable[Expression], functions: Functions) -> Node:
    condition = functions.conjunction(conjuncts)
    return node if condition is None else Filter(node, condition)


def _split(
    conjuncts: list[Expression], test: Callable[[frozenset[int]], bool]
) -> tuple[list[Expression], list[Expression]]:
    fits = [test(ex.fields(c)) for c in conjuncts]
    return [c for c, f in zip(conjuncts, fits, strict=True) if f], [
        c for c, f in zip(conjuncts, fits, strict=True) if not f
    ]
