"""Drop rows without a partner before asking, where the operator itself must stay below the join.

Semi(x, Filter(f(a), AiMap(a, y)))    →  Semi(x, Filter(f(a), AiMap(a, Semi(y, x)))); likewise anti and mark joins

Left(x, Filter(f(a), AiMap(a, y)))    →  Left(x, Filter(f(a), AiMap(a, Semi(y, x))))

Join(x, Aggregate(k, AiMap(y)))       →  Join(x, Aggregate(k, AiMap(Semi(y, x)))), joined on k

Join(x, UnionAll(AiMap(y), z))        →  Join(x, UnionAll(AiMap(Semi(y, x)), z))

Semi(Aggregate(k, AiMap(x)), y)       →  Aggregate(k, AiMap(Semi(x, y))), joined on k; likewise anti joins

The other side is read twice, so it must have no AI operator and no part that can differ the second time. Such parts are
row numbers, limits, windows and volatile expressions. The last form only moves the join, which is then read once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from substrait.algebra_pb2 import Expression, JoinRel, SetRel

from flightllm.optimizer.group_before_ai import one_set
from flightllm.optimizer.join_before_ai import compares_sides
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    Aggregate,
    AiMap,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SetOp,
    Sort,
    children,
    has_ai,
    has_window,
    keeps_its_rows,
    over_input,
    own_messages,
    transform,
    walk,
    with_children,
)
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT

_INNER, _LEFT, _RIGHT = JoinRel.JOIN_TYPE_INNER, JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_RIGHT
_SEMI, _ANTI = JoinRel.JOIN_TYPE_LEFT_SEMI, JoinRel.JOIN_TYPE_LEFT_ANTI
_MOVED = {
    _SEMI: _SEMI,
    _ANTI: _ANTI,
    JoinRel.JOIN_TYPE_RIGHT_SEMI: _SEMI,
    JoinRel.JOIN_TYPE_RIGHT_ANTI: _ANTI,
}
"""The joins that can be moved, and the kind of each with its kept side on the left."""
_REPEATABLE_MEASURES = frozenset({"count", "min", "max"})


def semi_join_before_ai(root: Node, functions: Functions) -> Node:
    """Move semi and anti joins below grouped AI operators; put a semi join below AI operators under another join."""
    return transform(root, lambda node: _reduce(node, functions) if isinstance(node, Join) else node)


def _reduce(node: Join, functions: Functions) -> Node:
    if node.condition is None:
        return node
    over_left = functions.operands(node.condition, "and")
    over_right = _swapped(over_left, node.left.width, node.right.width)
    left, right = node.left, node.right
    if node.kind in _MOVED:
        kept, other, over = (left, right, over_left) if node.kind in LEFT_KEPT else (right, left, over_right)
        moved = _Placing(other, _MOVED[node.kind], functions, whole=True).below(kept, over)
        if moved is not None:
            return moved
    keys = [compares_sides(c, left.width, functions) for c in over_left]
    if node.kind in LEFT_KEPT | {_INNER, _LEFT} and has_ai(right) and repeatable(left, functions):
        right = _Placing(left, _SEMI, functions).below(right, list(compress(over_right, keys))) or right
    elif node.kind in RIGHT_KEPT | {_INNER, _RIGHT} and has_ai(left) and repeatable(right, functions):
        left = _Placing(right, _SEMI, functions).below(left, list(compress(over_left, keys))) or left
    return with_children(node, (left, right))


@dataclass(frozen=True, slots=True)
class _Placing:
    """Puts a join with `other` into a tree, below AI operators; with `whole`, only with its whole condition."""

    other: Node
    kind: "JoinRel.JoinType.ValueType"
    functions: Functions
    whole: bool = False

    def below(self, node: Node, conjuncts: Sequence[Expression], *, saves: bool = False) -> Node | None:
        """Return `node` with the join in it, as low as possible; None if that is above all AI operators.

        The conjuncts see the columns of `node`, then the columns of `other`.
        """
        if isinstance(node, SetOp) and node.rel.op == SetRel.SET_OP_UNION_ALL and not self.whole:
            inputs = tuple(self.below(i, conjuncts) or i if has_ai(i) else i for i in node.inputs)
            changed = with_children(node, inputs)
            return None if changed is node else changed
        columns = _columns(node)
        if columns is not None:
            (input_,) = children(node)
            seen = [*columns, *map(field, range(input_.width, input_.width + self.other.width))]
            moved = [over_input(c, seen, self.functions) for c in conjuncts]
            passing = [c for c in moved if c is not None]
            if passing and (len(passing) == len(conjuncts) or not self.whole):
                below = self.below(input_, passing, saves=saves or isinstance(node, AiMap))
                return None if below is None else with_children(node, (below,))
        if not conjuncts or not saves or self._is_in(node):
            return None
        return Join(node, self.other, self.kind, self.functions.conjunction(conjuncts))

    def _is_in(self, node: Node) -> bool:
        """Return whether an earlier round has already put this join here."""
        while not self.whole and isinstance(node, Join) and node.kind == _SEMI:
            if same(node.right, self.other):
                return True
            node = node.left
        return False


def _columns(node: Node) -> Sequence[Expression | None] | None:
    """Return the columns of `node` as expressions over its input (None: no input column); None to stop above `node`."""
    match node:
        case AiMap() if not keeps_its_rows(node):
            return [*map(field, range(node.input.width)), *[None] * len(node.calls)]
        case Filter() | Sort():
            return [*map(field, range(node.width))]
        case Project() if not has_window(node):
            return node.expressions
        case Aggregate() if one_set(node):
            return [*node.rel.grouping_expressions, *[None] * len(node.rel.measures)]
        case _:
            return None


def _swapped(conjuncts: Sequence[Expression], left: int, right: int) -> list[Expression]:
    """Rewrite conjuncts over left and right columns so that the right columns come first."""
    return [ex.substitute(c, lambda i: field(i + right if i < left else i - left)) for c in conjuncts]


def repeatable(node: Node, functions: Functions) -> bool:
    """Return whether `node` has no AI call and returns the same rows each time it is read."""
    return all(_repeats(n, functions) for n in walk(node))


def _repeats(node: Node, functions: Functions) -> bool:
    for message in own_messages(node):
        slots = [message] if isinstance(message, Expression) else ex.slots(message)
        for expression in (e for slot in slots for e in ex.walk(slot)):
            if functions.is_volatile(expression) or expression.WhichOneof("rex_type") in {
                "subquery",
                "window_function",
            }:
                return False
    match node:
        case Scan() | Filter() | Project() | Join() | SetOp() | Sort():
            return True
        case Aggregate():
            return all(functions.names[m.measure.function_reference] in _REPEATABLE_MEASURES for m in node.rel.measures)
        case _:
            return False


def same(a: Node, b: Node) -> bool:
    """Return whether two trees are equal."""
    if a is b:
        return True
    if type(a) is not type(b) or a.width != b.width or len(children(a)) != len(children(b)):
        return False
    if isinstance(a, Join) and isinstance(b, Join) and a.kind != b.kind:
        return False
    equal = [m.SerializeToString(deterministic=True) for m in own_messages(a)] == [
        m.SerializeToString(deterministic=True) for m in own_messages(b)
    ]
    return equal and all(map(same, children(a), children(b)))
