"""Join before asking, so that the model never gets rows without a partner.

Join(AiMap(x), y)                    →  AiMap(Join(x, y)), columns reordered; likewise the right side
Join(Filter(f(a), AiMap(a, x)), y)   →  Filter(f(a), AiMap(a, Join(x, y)))
LeftSemi(AiMap(x), y)                →  AiMap(LeftSemi(x, y)); likewise the kept side of anti and mark joins
Left(x, AiMap(y))                    →  AiMap(Left(x, y)), which asks only in rows where y has a match

An operator asks about each distinct tuple once, and a join adds no tuples, so there are never more calls than before.
If a part of an inner join's condition reads answers, it becomes a filter above the join. Operators stay below a join
without an equality, because such a join only multiplies rows. Filters stay on the optional side of an outer join,
because they decide which rows have a match. Operators stay below a join if a sample of their rows calibrates a call.
"""

from dataclasses import dataclass, replace

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.optimizer.chain import Chain, moved, peel, whole
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Fetch, Filter, Join, Node, Project, over_input, transform
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT

_INNER, _LEFT, _RIGHT = JoinRel.JOIN_TYPE_INNER, JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_RIGHT
_PAIRED = frozenset({_INNER, _LEFT, _RIGHT})
_MARKED = frozenset({JoinRel.JOIN_TYPE_LEFT_MARK, JoinRel.JOIN_TYPE_RIGHT_MARK})


def join_before_ai(root: Node, functions: Functions) -> Node:
    """Pull filters and AI operators up past the joins that read them."""
    return transform(root, lambda node: _pull(node, functions) if isinstance(node, Join) else node)


def _pull(node: Join, functions: Functions) -> Node:
    if node.kind in LEFT_KEPT | RIGHT_KEPT:
        return _pull_kept(node, functions)
    if node.kind not in _PAIRED:
        return node
    left = peel(node.left, functions, filters=node.kind != _RIGHT)
    right = peel(node.right, functions, filters=node.kind != _LEFT)
    left, right = (None if side is not None and side.keeps_its_rows else side for side in (left, right))
    for sides in ((left, right), (left, None), (None, right)):
        result = _pull_pair(node, *sides, functions) if any(sides) else None
        if result is not None:
            return result
    return node


def _pull_kept(node: Join, functions: Functions) -> Node:
    """Pull up the steps of the side that a semi, anti or mark join keeps, where its condition reads no answer."""
    from_left = node.kind in LEFT_KEPT
    chain = peel(node.left if from_left else node.right, functions)
    if chain is None or chain.keeps_its_rows:
        return node
    other = node.right if from_left else node.left
    first, start = (0, chain.base.width) if from_left else (other.width, 0)
    plain = [c if chain.is_plain(c) else None for c in chain.columns]
    kept = [None if c is None else ex.shift(c, first) for c in plain]
    others = [field(start + i) for i in range(other.width)]
    columns = [*kept, *others] if from_left else [*others, *kept]
    condition = None if node.condition is None else over_input(node.condition, columns, functions)
    if condition is None and node.condition is not None:
        return node
    sides = (chain.base, other) if from_left else (other, chain.base)
    joined = Join(*sides, node.kind, condition)
    move = chain.mover(joined, range(chain.base.width))
    mark = [field(chain.base.width)] if node.kind in _MARKED else []
    return Project(chain.over(joined, move), (*map(move, chain.columns), *mark))


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both inputs of a join, taken apart.

    The rebuilt tree has the columns of both bases, then the answers of the left steps, then the answers of the right
    steps.
    """

    left: Chain
    right: Chain

    @property
    def width(self) -> int:
        return self.left.base.width + self.right.base.width

    def columns(self) -> list[Expression]:
        return [*map(self._on_left, self.left.columns), *map(self._on_right, self.right.columns)]

    def over(self, joined: Node) -> Node:
        return self.right.over(self.left.over(joined, self._on_left), self._on_right)

    def _on_left(self, expression: Expression) -> Expression:
        split, width = self.left.base.width, self.width
        return ex.substitute(expression, lambda i: field(i if i < split else width + i - split))

    def _on_right(self, expression: Expression) -> Expression:
        first, split, width = self.left.base.width, self.right.base.width, self.width + self.left.calls
        return ex.substitute(expression, lambda i: field(first + i if i < split else width + i - split))


def _pull_pair(node: Join, left: Chain | None, right: Chain | None, functions: Functions) -> Node | None:
    """Return the join below the steps of its sides; None if the condition forbids that or has no equality."""
    shown_left, shown_right = left, right
    if left is not None and node.kind == _RIGHT:
        left, shown_left = _optional(left, functions)
    if right is not None and node.kind == _LEFT:
        right, shown_right = _optional(right, functions)
    sides = _Sides(left or whole(node.left), right or whole(node.right))
    shown = _Sides(shown_left or sides.left, shown_right or sides.right)
    operands = [] if node.condition is None else functions.operands(node.condition, "and")
    conjuncts = [over_input(o, sides.columns(), functions) for o in operands]
    known = [c for c in conjuncts if c is not None]
    below = [c for c in known if all(i < sides.width for i in ex.fields(c))]
    above = [c for c in known if any(i >= sides.width for i in ex.fields(c))]
    if len(known) < len(conjuncts) or (above and node.kind != _INNER):
        return None
    matches = any(compares_sides(c, sides.left.base.width, functions) for c in below)
    if not matches and not (node.condition is None and _one_row(node.left if left is None else node.right)):
        return None
    joined = Join(sides.left.base, sides.right.base, node.kind, functions.conjunction(below))
    result = sides.over(joined)
    late = functions.conjunction(above)
    return Project(result if late is None else Filter(result, late), tuple(shown.columns()))


def _optional(chain: Chain, functions: Functions) -> tuple[Chain, Chain]:
    """Restrict the calls of an outer join's optional side to rows that exist.

    Return the chain as the join's condition sees it, and as nodes above the join see it: NULL where the row is missing.
    """
    width = chain.base.width
    true = Expression(literal=Expression.Literal(boolean=True))
    base = Project(chain.base, (*map(field, range(width)), true))
    there = functions.call("is_true", field(width))

    def move(expression: Expression) -> Expression:
        return ex.substitute(expression, lambda i: field(i if i < width else i + 1))

    steps = []
    for step in chain.steps:
        calls = [moved(call, move) for call in step if isinstance(step, tuple)]
        steps.append(
            tuple(replace(c, when=functions.conjunction([there, *([c.when] if c.when else [])])) for c in calls)
        )
    columns = tuple(map(move, chain.columns))
    shown = tuple(c if _is_missing(c, width) else ex.only_where(there, c) for c in columns)
    return Chain(base, tuple(steps), columns), Chain(base, tuple(steps), shown)


def _is_missing(column: Expression, width: int) -> bool:
    """Return whether the join itself makes the column NULL in a missing row, as it does for columns of the base.

    Answers are shared between rows with equal arguments, so a missing row could get the answer of a row that exists.
    """
    index = ex.field_index(column)
    return index is not None and index < width


def compares_sides(conjunct: Expression, split: int, functions: Functions) -> bool:
    """Return whether a conjunct equates an expression over columns left of `split` with one over the others."""
    if functions.name(conjunct) != "equal":
        return False
    left, right = sorted(map(ex.fields, ex.arguments(conjunct)), key=lambda read: min(read, default=-1))
    return bool(left) and max(left) < split <= min(right)


def _one_row(node: Node) -> bool:
    while isinstance(node, Project | Fetch):
        node = node.input
    return isinstance(node, Aggregate) and not node.rel.grouping_expressions
