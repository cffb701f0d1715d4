"""Pushes predicates without AI calls towards the tables, as DataFusion does in plans without AI calls.

DataFusion's own rule is off while a query is planned, because it would push AI predicates below joins too. Plain
predicates must still reduce the rows that a call sees, so this module pushes them down before calls become operators.
It pushes them through projections, sorts, unions, group keys and window partitions. It pushes them into the sides of
joins, and across equal join keys to the other side. A call over a set of rows stops them: with fewer rows, it would
give other answers.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from substrait.algebra_pb2 import Expression, JoinRel, SetRel

from flightllm.functions.call import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Node,
    Project,
    SetOp,
    Sort,
    children,
    has_window,
    over_input,
    walk,
    windows,
    with_children,
)
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT

_INNER = JoinRel.JOIN_TYPE_INNER
_LEFT_STAYS = LEFT_KEPT | {_INNER, JoinRel.JOIN_TYPE_LEFT}
"""Joins that commute with a predicate on their left columns, and that can lose right rows without a match."""
_RIGHT_STAYS = RIGHT_KEPT | {_INNER, JoinRel.JOIN_TYPE_RIGHT}
_LEFT_OF = {JoinRel.JOIN_TYPE_LEFT: _INNER, JoinRel.JOIN_TYPE_OUTER: JoinRel.JOIN_TYPE_RIGHT}
"""The equivalent join where a predicate above drops the rows without a right side."""
_RIGHT_OF = {JoinRel.JOIN_TYPE_RIGHT: _INNER, JoinRel.JOIN_TYPE_OUTER: JoinRel.JOIN_TYPE_LEFT}
_STRICT = frozenset({"equal", "not_equal", "lt", "lte", "gt", "gte", "is_not_null"})
_UNIONS = frozenset({SetRel.SET_OP_UNION_ALL, SetRel.SET_OP_UNION_DISTINCT})


def push_down(root: Node, functions: Functions, calls: Mapping[str, AICall]) -> Node:
    """Return the tree with predicates without AI calls pushed down as far as possible, in parts that have AI calls."""
    over_sets = frozenset(name for name, call in calls.items() if call.over is not None and call.over.whole)

    def asks(node: Node) -> bool:
        return any(functions.name(e) in calls for x in _expressions(node) for e in ex.walk(x))

    return _PushDown(functions, calls, asks, over_sets).inside(root)


def push_down_to(root: Node, functions: Functions, reads: Callable[[Node], bool]) -> Node:
    """Return a tree without AI calls with its predicates pushed down as far as possible towards `reads` nodes."""
    return _PushDown(functions, (), reads).inside(root)


class _PushDown:
    def __init__(
        self,
        functions: Functions,
        calls: Container[str],
        is_target: Callable[[Node], bool],
        over_sets: Container[str] = (),
    ) -> None:
        self._functions = functions
        self._calls = calls
        self._is_target = is_target
        self._over_sets = over_sets

    def inside(self, node: Node) -> Node:
        """Push down the predicates inside `node`, with no predicate from above."""
        return self._filtered(*self.sink(node, [])) if self._holds_target(node) else node

    def sink(
        self, node: Node, conjuncts: list[Expression], above: Sequence[Expression] = ()
    ) -> tuple[Node, list[Expression]]:
        """Push `conjuncts`, over the columns of `node`, into it; return the new node and the conjuncts that stay above.

        `above` are further conjuncts above the node that cannot move; they still show which rows are dropped later.
        """
        if not self._holds_target(node):
            return self._filtered(node, conjuncts), []
        match node:
            case Filter():
                own = self._functions.operands(node.condition, "and")
                plain = [c for c in own if self._may_move(c)]
                fixed = [c for c in own if not self._may_move(c)]
                if self._has_any(fixed, self._over_sets):
                    input_, stay = self.sink(node.input, plain)
                    return self._filtered(input_, stay + fixed), conjuncts
                input_, stay = self.sink(node.input, plain + conjuncts, [*fixed, *above])
                return self._filtered(input_, stay + fixed), []
            case Project() | Sort() | Aggregate() if self._has_any(_expressions(node), self._over_sets):
                return with_children(node, (self.inside(node.input),)), conjuncts
            case Sort():
                return Sort(self._filtered(*self.sink(node.input, conjuncts)), node.rel), []
            case Project():
                columns = _partition_columns(node) if has_window(node) else node.expressions
                moved, stay = self._through(conjuncts, columns)
                over = [] if has_window(node) else [over_input(a, columns, self._functions) for a in [*stay, *above]]
                below = self.sink(node.input, moved, [a for a in over if a is not None])
                return Project(self._filtered(*below), node.expressions), stay
            case Aggregate() if len(node.rel.groupings) == 1:
                keys = [node.rel.grouping_expressions[i] for i in node.rel.groupings[0].expression_references]
                moved, stay = self._through(conjuncts, [*keys, *[None] * (node.width - len(keys))])
                return Aggregate(self._filtered(*self.sink(node.input, moved)), node.rel), stay
            case SetOp() if node.rel.op in _UNIONS:
                return SetOp(tuple(self._filtered(*self.sink(i, conjuncts)) for i in node.inputs), node.rel), []
            case Join():
                return self._join(self._matched(node, [*conjuncts, *above]), conjuncts)
            case _:
                return with_children(node, tuple(map(self.inside, children(node)))), conjuncts

    def _join(self, node: Join, conjuncts: list[Expression]) -> tuple[Node, list[Expression]]:
        split = node.left.width
        condition = [] if node.condition is None else self._functions.operands(node.condition, "and")
        keys = [pair for c in condition if (pair := self._key_pair(c, split)) is not None]
        fixed = [c for c in condition if not self._may_move(c)]
        plain = [c for c in condition if self._may_move(c)]
        on_left, plain = _split(plain, range(split))
        on_right, plain = _split(plain, range(split, split + node.right.width))
        left: list[Expression] = []
        right: list[Expression] = []
        if node.kind in _LEFT_STAYS:
            left, conjuncts = _split(conjuncts, range(split))
            right += on_right
        if node.kind in _RIGHT_STAYS:
            start = 0 if node.kind in RIGHT_KEPT else split
            own, conjuncts = _split(conjuncts, range(start, start + node.right.width))
            right += [ex.shift(c, split - start) for c in own]
            left += on_left
        kept = [*plain, *fixed]
        kept += [] if node.kind in _LEFT_STAYS else on_right
        kept += [] if node.kind in _RIGHT_STAYS else on_left
        true_left = [*left, *on_left, *self._known(node.left)]
        true_right = [*right, *on_right, *(ex.shift(c, split) for c in self._known(node.right))]
        to_right, to_left = dict(keys), {b: a for a, b in keys}
        if node.kind in _LEFT_STAYS and self._holds_target(node.right):
            right += _across(true_left, to_right)
        if node.kind in _RIGHT_STAYS and self._holds_target(node.left):
            left += _across(true_right, to_left)
        if node.kind == _INNER:
            both = [*conjuncts, *(c for c in plain if self._key_pair(c, split) is None)]
            left += _onto(range(split), both, to_left)
            right += _onto(range(split, split + node.right.width), both, to_right)
        joined = Join(
            self._filtered(*self.sink(node.left, _distinct(left))),
            self._filtered(*self.sink(node.right, _distinct(ex.shift(c, -split) for c in right))),
            node.kind,
            self._functions.conjunction(kept),
        )
        return joined, conjuncts

    def _matched(self, node: Join, conjuncts: list[Expression]) -> Join:
        """Turn an outer join into a narrower join where `conjuncts` reject its rows without a match."""
        split = node.left.width
        kind = node.kind
        if kind in _LEFT_OF and any(self._rejects(c, range(split, split + node.right.width)) for c in conjuncts):
            kind = _LEFT_OF[kind]
        if kind in _RIGHT_OF and any(self._rejects(c, range(split)) for c in conjuncts):
            kind = _RIGHT_OF[kind]
        return node if kind == node.kind else replace(node, kind=kind)

    def _rejects(self, conjunct: Expression, columns: range) -> bool:
        """Return whether a conjunct fails when all of `columns` are NULL: it compares a column or tests it for NULL."""
        name = self._functions.name(conjunct)
        if name in {"and", "or"}:
            found = (self._rejects(a, columns) for a in ex.arguments(conjunct))
            return any(found) if name == "and" else all(found)
        return name in _STRICT and any(ex.field_index(a) in columns for a in ex.arguments(conjunct))

    def _known(self, node: Node) -> list[Expression]:
        """Return plain predicates that are true for every row of `node`."""
        match node:
            case Filter():
                own = self._functions.operands(node.condition, "and")
                return [c for c in own if self._may_move(c)] + self._known(node.input)
            case Project():
                places = {i: at for at, e in enumerate(node.expressions) if (i := ex.field_index(e)) is not None}
                return _across(self._known(node.input), places)
            case _:
                return []

    def _key_pair(self, condition: Expression, split: int) -> tuple[int, int] | None:
        """Return the left and the right column that an equality of the join condition compares."""
        if self._functions.name(condition) != "equal":
            return None
        columns = sorted(i for a in ex.arguments(condition) if (i := ex.field_index(a)) is not None)
        return (columns[0], columns[1]) if len(columns) == 2 and columns[0] < split <= columns[1] else None

    def _through(
        self, conjuncts: list[Expression], columns: Sequence[Expression | None]
    ) -> tuple[list[Expression], list[Expression]]:
        """Rewrite conjuncts over the expressions below (None: impossible); return the rewritten ones and the rest."""
        moved, stay = [], []
        for conjunct in conjuncts:
            below = over_input(conjunct, columns, self._functions) if ex.fields(conjunct) else None
            if below is None or not self._may_move(below):
                stay.append(conjunct)
            else:
                moved.append(below)
        return moved, stay

    def _may_move(self, expression: Expression) -> bool:
        return not self._has_any([expression], self._calls) and not self._functions.is_volatile(expression)

    def _has_any(self, expressions: Iterable[Expression], calls: Container[str]) -> bool:
        return any(self._functions.name(e) in calls for x in expressions for e in ex.walk(x))

    def _holds_target(self, node: Node) -> bool:
        return any(map(self._is_target, walk(node)))

    def _filtered(self, node: Node, conjuncts: Iterable[Expression]) -> Node:
        condition = self._functions.conjunction(conjuncts)
        return node if condition is None else Filter(node, condition)


def _expressions(node: Node) -> Iterable[Expression]:
    match node:
        case Filter():
            return [node.condition]
        case Project():
            return node.expressions
        case Join():
            return [] if node.condition is None else [node.condition]
        case Aggregate() | Sort():
            return ex.slots(node.rel)
        case _:
            return []


def _partition_columns(node: Project) -> list[Expression | None]:
    """Keep the columns by which all window functions are partitioned: a predicate on them drops whole partitions."""
    keys = [{ex.key(p) for p in w.window_function.partitions} for w in windows(node)]
    return [e if all(ex.key(e) in k for k in keys) else None for e in node.expressions]


def _across(conjuncts: list[Expression], keys: dict[int, int]) -> list[Expression]:
    """Return conjuncts rewritten for the other join side, where `keys` maps each of their columns to an equal one."""
    known = [c for c in conjuncts if ex.fields(c) and ex.fields(c) <= keys.keys()]
    return [ex.substitute(c, lambda i: field(keys[i])) for c in known]


def _onto(side: range, conjuncts: list[Expression], keys: dict[int, int]) -> list[Expression]:
    """Return conjuncts over both sides rewritten for `side`; `keys` maps columns of the other side to equal ones."""
    both = [c for c in conjuncts if any(i in side for i in ex.fields(c)) and not all(i in side for i in ex.fields(c))]
    known = [c for c in both if all(i in side or i in keys for i in ex.fields(c))]
    return [ex.substitute(c, lambda i: field(i if i in side else keys[i])) for c in known]


def _distinct(conjuncts: Iterable[Expression]) -> list[Expression]:
    return list({ex.key(c): c for c in conjuncts}.values())


def _split(conjuncts: list[Expression], side: range) -> tuple[list[Expression], list[Expression]]:
    """Separate the conjuncts that read columns, all of one side, from the other conjuncts."""
    fits = [bool(read := ex.fields(c)) and all(i in side for i in read) for c in conjuncts]
    one = [c for c, fit in zip(conjuncts, fits, strict=True) if fit]
    return one, [c for c, fit in zip(conjuncts, fits, strict=True) if not fit]
