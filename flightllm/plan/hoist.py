"""Lift AI calls out of expressions into `AiMap` operators, each with the guard that SQL's short circuits give it."""

from collections.abc import Iterable, Mapping

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.ai import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, Filter, Join, Node, Project, Sort, keep, transform
from flightllm.plan.site import Site
from flightllm.plan.substrait import NotExpressibleError

_RIGHT_KEPT = frozenset({JoinRel.JOIN_TYPE_RIGHT_SEMI, JoinRel.JOIN_TYPE_RIGHT_ANTI, JoinRel.JOIN_TYPE_RIGHT_MARK})


def hoist(root: Node, functions: Functions, calls: Mapping[str, AICall]) -> Node:
    """Return the tree with every call of a stub in `calls` computed by an `AiMap` below the node that used it.

    Raises:
        NotExpressibleError: a call stands where no operator can be put, such as the condition of an outer join that
            reads both sides.
    """
    return transform(root, _Hoister(functions, calls).node)


class _Hoister:
    def __init__(self, functions: Functions, calls: Mapping[str, AICall]) -> None:
        self._functions = functions
        self._calls = calls

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

    def _any(self, expressions: Iterable[Expression]) -> bool:
        return any(self._is_call(e) for expression in expressions for e in ex.walk(expression))

    def _filter(self, node: Filter) -> Node:
        """Filter by the conjuncts without AI calls first, then by each of the others on what is left."""
        conjuncts = self._functions.operands(node.condition, "and")
        plain = self._functions.conjunction(c for c in conjuncts if not self._any([c]))
        result = node.input if plain is None else Filter(node.input, plain)
        for conjunct in filter(lambda c: self._any([c]), conjuncts):
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
            return self._one_sided(node, condition)
        operands = self._functions.operands(condition, "and")
        plain = self._functions.conjunction(o for o in operands if not self._any([o]))
        ai = self._functions.conjunction(o for o in operands if self._any([o]))
        joined = Join(node.left, node.right, node.kind, plain)
        return joined if ai is None else self.node(Filter(joined, ai))

    def _one_sided(self, node: Join, condition: Expression) -> Node:
        """Compute the calls of an outer, semi, anti or mark join below it, each on the one side that it reads."""
        split = node.left.width
        left, right = self._site(node.left, [condition]), self._site(node.right, [])
        columns: dict[bytes, tuple[bool, int]] = {}
        for call in filter(self._is_call, ex.walk(condition)):
            read = ex.fields(call)
            on_left = all(c < split for c in read)
            if not on_left and any(c < split for c in read):
                raise NotExpressibleError(
                    "an AI call in the condition of an outer or semi join reads both of its sides"
                )
            lifted = left.lift(call) if on_left else right.lift(ex.shift(call, -split))
            columns[ex.key(call)] = (on_left, ex.field_index(lifted) or 0)
        new_left, new_right = left.wrap(node.left), right.wrap(node.right)
        added = new_left.width - split

        def place(expression: Expression) -> Expression:
            if self._is_call(expression):
                on_left, column = columns[ex.key(expression)]
                return field(column if on_left else column + new_left.width)
            if expression.WhichOneof("rex_type") == "selection":
                return ex.substitute(expression, lambda c: field(c if c < split else c + added))
            return ex.rebuild(expression, place)

        joined = Join(new_left, new_right, node.kind, place(condition))
        if node.kind in _RIGHT_KEPT:
            kept = [*range(node.right.width), *range(new_right.width, joined.width)]
        else:
            kept = [*range(split), *range(new_left.width, joined.width)][: node.width]
        return Project(joined, tuple(map(field, kept)))
