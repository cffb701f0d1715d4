"""The AI calls in the expressions of one plan node, sorted so that each call follows the calls that it reads."""

from collections.abc import Iterable, Mapping

from substrait.algebra_pb2 import Expression

from flightllm.functions.call import AICall
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions, field
from flightllm.plan.nodes import AiMap, Call, Node

_TEXTS = frozenset({"string", "varchar", "fixed_char"})
_SAFE = frozenset(
    {
        *("coalesce", "concat", "concat_ws", "upper", "lower", "trim", "btrim", "ltrim", "rtrim", "nullif"),
        *("and", "or", "not", "is_null", "is_not_null", "is_true", "is_false", "equal", "not_equal"),
    }
)
"""Functions that never raise an error, whatever their arguments are."""


class Site:
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
        """Tell whether an expression cannot fail: it consists of columns, literals and safe functions of texts."""
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
