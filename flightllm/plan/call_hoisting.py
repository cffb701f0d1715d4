"""Move AI calls out of expressions into `AiMap` operators, each with the guard that SQL's short circuits imply."""

from collections.abc import Iterable, Mapping
from itertools import count

from substrait.algebra_pb2 import Expression, JoinRel

from flightllm.functions.call import MODEL, AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import Aggregate, AiMap, Call, Filter, Join, Node, Number, Project, Sort, keep, transform
from flightllm.plan.pairs import LEFT_KEPT, RIGHT_KEPT, restore

_NUMBERS_LEFT = LEFT_KEPT | {JoinRel.JOIN_TYPE_LEFT, JoinRel.JOIN_TYPE_OUTER}
_NUMBERS_RIGHT = RIGHT_KEPT | {JoinRel.JOIN_TYPE_RIGHT, JoinRel.JOIN_TYPE_OUTER}
_TEXTS = frozenset({"string", "varchar", "fixed_char"})
_SAFE = frozenset(
    {
        *("coalesce", "concat", "concat_ws", "upper", "lower", "trim", "btrim", "ltrim", "rtrim", "nullif"),
        *("and", "or", "not", "is_null", "is_not_null", "is_true", "is_false", "equal", "not_equal"),
    }
)
"""Functions that never raise an error, whatever their arguments are."""


def hoist_calls(root: Node, functions: Functions, calls: Mapping[str, AICall]) -> Node:
    """Return the tree with every call of a stub in `calls` computed by an `AiMap` below the node that uses the call."""
    return transform(root, _CallHoister(functions, calls).node)


class _CallHoister:
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

    def _site(self, input_: Node, unconditional: Iterable[Expression]) -> "_Site":
        return _Site(self._functions, self._calls, input_.width, unconditional)

    def _is_call(self, expression: Expression) -> bool:
        return self._functions.name(expression) in self._calls

    def _asks_model(self, expression: Expression) -> bool:
        return any(self._calls[name].backend == MODEL for name in self._names(expression) if name in self._calls)

    def _by_rows(self, expression: Expression) -> bool:
        return any(self._calls[name].by_rows for name in self._names(expression) if name in self._calls)

    def _cascades(self, expression: Expression) -> bool:
        return any(self._calls[name].cascades for name in self._names(expression) if name in self._calls)

    def _joins(self, expression: Expression) -> bool:
        return any(self._calls[name].join is not None for name in self._names(expression) if name in self._calls)

    def _names(self, expression: Expression) -> Iterable[str]:
        return (name for e in ex.walk(expression) if (name := self._functions.name(e)) is not None)

    def _any(self, expressions: Iterable[Expression]) -> bool:
        return any(self._is_call(e) for expression in expressions for e in ex.walk(expression))

    def _filter(self, node: Filter) -> Node:
        """Filter first by the conjuncts without AI calls, then by each of the others on the rows that are left.

        AI calls that need no language model come before those that do, and those with a promise after those: their
        promise is then about the rows that all other filters leave. Calls that say how they join come after those, so
        that filters of one table come first. Last come those that a sample of their rows
        calibrates, all at once: so the sample depends on no order of the conjuncts.
        """
        conjuncts = self._functions.operands(node.condition, "and")
        plain = self._functions.conjunction(c for c in conjuncts if not self._any([c]))
        result = node.input if plain is None else Filter(node.input, plain)
        asking = [c for c in conjuncts if self._any([c])]
        last = [c for c in asking if self._by_rows(c)]
        others = sorted(
            (c for c in asking if c not in last), key=lambda c: (self._asks_model(c), self._cascades(c), self._joins(c))
        )
        for together in (*([c] for c in others), *([last] if last else [])):
            site = self._site(result, together)
            condition = self._functions.conjunction(map(site.lift, together))
            result = result if condition is None else Filter(site.wrap(result), condition)
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


class _Site:
    """Collects the AI calls of one node's expressions; `lift` replaces them by columns that `wrap` appends.

    `unconditional` are the node's expressions that are evaluated for every row. If such an expression
    has a call that no short circuit can skip, the call is needed for every row. So it needs no guard in the whole node.
    """

    def __init__(
        self, functions: Functions, calls: Mapping[str, AICall], width: int, unconditional: Iterable[Expression]
    ) -> None:
        self._functions = functions
        self._ai = calls
        self._width = width
        self._calls: list[Call] = []
        self._columns: dict[tuple[bytes, bytes], Expression] = {}
        self._always = frozenset(k for e in unconditional for k in self._unguarded(e))

    def wrap(self, input_: Node) -> Node:
        """Put one operator per call above `input_`; a later call can read the column of an earlier call."""
        for call in self._calls:
            input_ = AiMap(input_, (call,))
        return input_

    def lift(self, expression: Expression, guard: Expression | None = None) -> Expression:
        """Return `expression` with its AI calls replaced by columns; the calls run only where `guard` is true."""
        name = self._functions.name(expression)
        if name in self._ai:
            return self._call(self._ai[name or ""], expression, guard)
        if name in {"and", "or"}:
            return self._short_circuit(expression, guard, "is_not_false" if name == "and" else "is_not_true")
        if name == "coalesce":
            return self._coalesce(expression, guard)
        if expression.WhichOneof("rex_type") == "if_then":
            return self._case(expression, guard)
        return ex.rebuild(expression, lambda e: self.lift(e, guard))

    def _call(self, ai: AICall, expression: Expression, guard: Expression | None) -> Expression:
        raw = ex.key(expression)
        if raw in self._always:
            guard = None
        place = (raw, ex.key(guard))
        if place not in self._columns or self._functions.is_volatile(expression):
            arguments = tuple(self._where(guard, self.lift(a, guard)) for a in ex.arguments(expression))
            self._columns[place] = field(self._width + len(self._calls))
            self._calls.append(Call(ai, arguments, guard, expression.scalar_function.output_type))
        return self._columns[place]

    def _where(self, guard: Expression | None, argument: Expression) -> Expression:
        """Return an argument that is evaluated only where its call is needed; on other rows, it can fail (10 / n)."""
        bare = argument
        if bare.WhichOneof("rex_type") == "cast" and bare.cast.type.WhichOneof("kind") in _TEXTS:
            bare = bare.cast.input
        return argument if guard is None or self._is_safe(bare) else ex.only_where(guard, argument)

    def _is_safe(self, expression: Expression) -> bool:
        """Return whether an expression cannot fail: it consists of columns, literals and safe functions of texts."""
        kind = expression.WhichOneof("rex_type")
        if kind == "cast":
            to = expression.cast.type.WhichOneof("kind")
            return to in _TEXTS and self._is_safe(expression.cast.input)
        if kind == "scalar_function":
            return self._functions.name(expression) in _SAFE and all(map(self._is_safe, ex.arguments(expression)))
        if kind == "if_then":  # DataFusion rewrites coalesce to CASE
            return all(map(self._is_safe, ex.slots(expression)))
        return kind == "literal" or ex.field_index(expression) is not None

    def _short_circuit(self, expression: Expression, guard: Expression | None, needed: str) -> Expression:
        """Lift AND and OR: operands without AI calls come first, and each operand guards the next operand."""
        operands = ex.arguments(expression)
        order = sorted(range(len(operands)), key=lambda i: self._has_call(operands[i]))
        lifted: dict[int, Expression] = {}
        for i in order:
            lifted[i] = self.lift(operands[i], guard)
            guard = self._both(guard, self._functions.call(needed, lifted[i]))
        return _with_arguments(expression, [lifted[i] for i in range(len(operands))])

    def _coalesce(self, expression: Expression, guard: Expression | None) -> Expression:
        lifted = []
        for argument in ex.arguments(expression):
            lifted.append(self.lift(argument, guard))
            guard = self._both(guard, self._functions.call("is_null", lifted[-1]))
        return _with_arguments(expression, lifted)

    def _case(self, expression: Expression, guard: Expression | None) -> Expression:
        copy = Expression()
        copy.CopyFrom(expression)
        base: Expression | None = None
        for clause in copy.if_then.ifs:
            needed = guard if base is None else self._both(guard, self._functions.call("is_not_null", base))
            value = self.lift(getattr(clause, "if"), needed)
            getattr(clause, "if").CopyFrom(value)
            if not clause.HasField("then"):  # CASE base WHEN value …: the first clause holds only the base
                base = value
                continue
            condition = value if base is None else self._functions.call("equal", base, value)
            clause.then.CopyFrom(self.lift(clause.then, self._both(guard, self._functions.call("is_true", condition))))
            guard = self._both(guard, self._functions.call("is_not_true", condition))
        if copy.if_then.HasField("else"):
            otherwise = getattr(copy.if_then, "else")
            otherwise.CopyFrom(self.lift(otherwise, guard))
        return copy

    def _both(self, guard: Expression | None, other: Expression) -> Expression | None:
        if self._functions.is_volatile(other):  # a second evaluation can differ
            return guard
        return other if guard is None else self._functions.call("and", guard, other)

    def _has_call(self, expression: Expression) -> bool:
        return any(self._functions.name(e) in self._ai for e in ex.walk(expression))

    def _unguarded(self, expression: Expression) -> Iterable[bytes]:
        """Yield the calls inside `expression` that no short circuit can skip."""
        name = self._functions.name(expression)
        if name in self._ai:
            yield ex.key(expression)
        if name in {"and", "or"}:
            operands = sorted(ex.arguments(expression), key=self._has_call)
            yield from self._unguarded(operands[0])
        elif name == "coalesce":
            yield from self._unguarded(ex.arguments(expression)[0])
        elif expression.WhichOneof("rex_type") == "if_then":
            yield from self._unguarded(getattr(expression.if_then.ifs[0], "if"))
        else:
            for slot in ex.slots(expression):
                yield from self._unguarded(slot)


def _with_arguments(expression: Expression, arguments: list[Expression]) -> Expression:
    copy = Expression()
    copy.CopyFrom(expression)
    for slot, argument in zip(copy.scalar_function.arguments, arguments, strict=True):
        slot.value.CopyFrom(argument)
    return copy
