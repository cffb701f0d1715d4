"""Moves AI calls out of expressions into `AiMap` operators.

Each operator has the guard that SQL's short-circuit evaluation implies.
"""

from collections.abc import Iterable, Mapping
from itertools import count

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.functions.call import MODEL, AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Filter, Join, Node, Number, Project, Sort, keep, transform
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT, restore
from flightllm.plan.site import Site

_NUMBERS_LEFT = LEFT_KEPT | {JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_OUTER}
_NUMBERS_RIGHT = RIGHT_KEPT | {JoinRel.JOIN_TYPE_RIGHT, JoinRel.JOIN_TYPE_OUTER}


def hoist(root: Node, functions: Functions, calls: Mapping[str, AICall]) -> Node:
    """Return the tree with an `AiMap` for every call of a stub in `calls`, below the node that uses the call."""
    return transform(root, _Hoister(functions, calls).node)


class _Hoister:
    def __init__(self, functions: Functions, calls: Mapping[str, AICall]) -> None:
        self._functions = functions
        self._calls = calls
        self._numbers = count()

    def node(self, node: Node) -> Node:
        match node:
            case Filter() if self._any([node.condition]):
                return self._filter(node)
            case Project() if self._any(node.expressions):
                site = self._site(node.input, node.expressions)
                lifted = tuple(map(site.lift, node.expressions))
                return Project(site.wrap(node.input), lifted)
            case Aggregate() if self._any(ex.slots(node.rel)):
                return self._aggregate(node)
            case Sort() if self._any(ex.slots(node.rel)):
                site = self._site(node.input, list(ex.slots(node.rel)))
                rel = ex.rebuild(node.rel, site.lift)
                return keep(Sort(site.wrap(node.input), rel), node.width)
            case Join() if node.condition is not None and self._any([node.condition]):
                return self._join(node, node.condition)
            case _:
                return node

    def _site(self, input_: Node, unconditional: Iterable[Expression]) -> Site:
        return Site(self._functions, self._calls, input_.width, unconditional)

    def _is_call(self, expression: Expression) -> bool:
        return self._functions.name(expression) in self._calls

    def _asks_model(self, expression: Expression) -> bool:
        return any(self._calls[name].backend == MODEL for name in self._names(expression) if name in self._calls)

    def _names(self, expression: Expression) -> Iterable[str]:
        return (name for e in ex.walk(expression) if (name := self._functions.name(e)) is not None)

    def _any(self, expressions: Iterable[Expression]) -> bool:
        return any(self._is_call(e) for expression in expressions for e in ex.walk(expression))

    def _filter(self, node: Filter) -> Node:
        """Filter first by the conjuncts without AI calls, then by each of the others on the rows that are left.

        Conjuncts without calls of a language model come before conjuncts with such calls.
        """
        conjuncts = self._functions.operands(node.condition, "and")
        plain = self._functions.conjunction(c for c in conjuncts if not self._any([c]))
        result = node.input if plain is None else Filter(node.input, plain)
        for conjunct in sorted(filter(lambda c: self._any([c]), conjuncts), key=self._asks_model):
            site = self._site(result, [conjunct])
            condition = site.lift(conjunct)
            result = Filter(site.wrap(result), condition)
        return keep(result, node.width)

    def _aggregate(self, node: Aggregate) -> Node:
        unconditional = list(node.rel.grouping_expressions)
        unconditional += [s for m in node.rel.measures if not m.HasField("filter") for s in ex.slots(m)]
        site = self._site(node.input, unconditional)
        rel = type(node.rel)()
        rel.CopyFrom(node.rel)
        for slot in rel.grouping_expressions:
            slot.CopyFrom(site.lift(slot))
        for measure in rel.measures:
            guard = None
            if measure.HasField("filter"):
                measure.filter.CopyFrom(site.lift(measure.filter))
                guard = self._functions.call("is_true", measure.filter)
            for slot in list(ex.slots(measure.measure)):
                slot.CopyFrom(site.lift(slot, guard))
        return Aggregate(site.wrap(node.input), rel)

    def _join(self, node: Join, condition: Expression) -> Node:
        if node.kind != JoinRel.JOIN_TYPE_INNER:
            return self._outer_join(node, condition)
        operands = self._functions.operands(condition, "and")
        plain = self._functions.conjunction(o for o in operands if not self._any([o]))
        ai = self._functions.conjunction(o for o in operands if self._any([o]))
        joined = Join(node.left, node.right, node.kind, plain)
        return joined if ai is None else self.node(Filter(joined, ai))

    def _outer_join(self, node: Join, condition: Expression) -> Node:
        """Find the matching pairs by an inner join of numbered rows, then join the pairs to these rows by number.

        So a call is made only for the pairs that pass the plain part of the condition.
        """
        left, right = node.left, node.right
        if node.kind in _NUMBERS_LEFT:
            left = Number(left, next(self._numbers))
        if node.kind in _NUMBERS_RIGHT:
            right = Number(right, next(self._numbers))
        added = left.width - node.left.width
        moved = ex.substitute(condition, lambda c: field(c if c < node.left.width else c + added))
        pairs = self._join(Join(left, right, JoinRel.JOIN_TYPE_INNER, None), moved)
        return restore(node, pairs, left, right, self._functions)
