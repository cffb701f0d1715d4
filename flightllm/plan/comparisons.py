"""Fold comparisons of AI calls with constants into boolean calls, where the call makes a promise.

gte(ai_score(t), 7)                                 →  a call that is true where the score is at least 7
and(gte(ai_score(t), 3), lte(ai_score(t), 7), p)    →  and(one call for both comparisons, p)
not(ai_filter(t))                                   →  a call that is true where the filter is false

So the promise of a negated filter is about the rows that the negation lets through.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from substrait.algebra_pb2 import Expression

from flightllm.errors import AICallError
from flightllm.functions.call import ERROR_FIELDS, MODEL, AICall
from flightllm.functions.compared import compared
from flightllm.functions.comparison import Comparison
from flightllm.functions.confidence import EXPECTED
from flightllm.plan import expressions as ex
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import Filter, Join, Node, transform, with_expressions

_SIGNS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "gte": (">=", ge),
        "gt": (">", gt),
        "lte": ("<=", le),
        "lt": ("<", lt),
        "equal": ("=", eq),
        "not_equal": ("<>", ne),
    }
)
_TURNED: Mapping[str, str] = MappingProxyType({"gte": "lte", "gt": "lt", "lte": "gte", "lt": "gt"})
"""The sign with the same meaning where the constant is on the left."""
_LITERALS: Final = frozenset({"fp64", "fp32", "i64", "i32", "i16", "i8", "string", "var_char", "fixed_char"})


def promises(call: AICall) -> bool:
    """Return whether a call makes a promise."""
    return call.promise is not None


def fold_comparisons(
    root: Node, functions: Functions, calls: Mapping[str, AICall], wants: Callable[[AICall], bool]
) -> tuple[Node, Functions, Mapping[str, AICall]]:
    """Return the plan with comparisons folded for the calls that `wants` accepts, and its functions and calls.

    If a place reads a call without a comparison, the call stays as it is in all places. So they see the same answer.

    Raises:
        AICallError: of a call with a promise, a place reads the number itself or compares an expected value for
            equality.
    """
    wanted = {stub: call for stub, call in calls.items() if _is_compared(call) and wants(call)}
    if not wanted:
        return root, functions, calls
    found = _Folder(functions, wanted)
    transform(root, found.node)
    for stub in found.bare:
        if pa.types.is_floating(wanted[stub].output) and wanted[stub].promise is not None:
            raise AICallError(
                f"{wanted[stub].text}: a promise needs a comparison with a constant number, such as"
                f" {wanted[stub].function}(…) >= 7; to get the number itself, leave out the targets"
            )
    folder = _Folder(functions, {stub: call for stub, call in wanted.items() if stub not in found.bare})
    changed = transform(root, folder.node)
    if not folder.made:
        return root, functions, calls
    kept = {stub: call for stub, call in calls.items() if stub not in folder.calls}
    return changed, Functions(folder.names, functions.others), {**kept, **folder.made}


def _is_compared(call: AICall) -> bool:
    """Return whether the answer of a call can be compared with a constant, or negated."""
    kinds = (pa.types.is_floating, pa.types.is_string, pa.types.is_boolean)
    is_value = any(is_kind(call.output) for is_kind in kinds) and call.on_error not in ERROR_FIELDS
    return is_value and call.backend == MODEL and not call.fresh


@dataclass(frozen=True, slots=True)
class _About:
    """An expression that is a comparison of one call's answer with constants."""

    call: Expression
    comparison: Comparison

    @property
    def key(self) -> bytes:
        """Return bytes that are equal for equal calls with equal arguments."""
        return ex.key(self.call)


class _Folder:
    """Folds the comparisons of some calls; `bare` are the stubs of calls that a place reads without a comparison."""

    def __init__(self, functions: Functions, calls: Mapping[str, AICall]) -> None:
        self.calls = calls
        self.names = dict(functions.names)
        self.made: dict[str, AICall] = {}
        self.bare: set[str] = set()
        self._functions = functions
        self._filters = False
        """Whether the node drops rows: there a negation has a promise of its own."""

    def node(self, node: Node) -> Node:
        """Return the node with its comparisons folded."""
        if not self.calls:
            return node
        self._filters = isinstance(node, Filter | Join)
        return with_expressions(node, self.expression)

    def expression(self, expression: Expression) -> Expression:
        """Return the expression with its comparisons folded."""
        if not any(self._functions.name(e) in self.calls for e in ex.walk(expression)):
            return expression
        if about := self._about(expression):
            return self._folded(about)
        name = self._functions.name(expression)
        if name in {"and", "or"}:
            return self._operands(expression, name or "")
        if name in self.calls:
            self.bare.add(name or "")
        return ex.rebuild(expression, self.expression)

    def _operands(self, expression: Expression, name: str) -> Expression:
        """Fold the operands of AND and OR; comparisons of one call become one operand, at the place of the first."""
        together: dict[bytes, list[_About]] = {}
        operands = self._functions.operands(expression, name)
        found = [self._about(operand) for operand in operands]
        for about in found:
            if about is not None:
                together.setdefault(about.key, []).append(about)
        folded = []
        for operand, about in zip(operands, found, strict=True):
            if about is None:
                folded.append(self.expression(operand))
            elif same := together.pop(about.key, None):
                folded.append(self._folded(_joined(name, same)))
        return reduce(lambda left, right: ex.with_slots(_binary(expression), (left, right)), folded)

    def _about(self, expression: Expression) -> _About | None:
        """Return what an expression says about the answer of one call; None for other expressions."""
        name = self._functions.name(expression)
        if name in _SIGNS:
            return self._sign(name or "", *ex.arguments(expression))
        if name == "not":
            return self._negated(ex.arguments(expression)[0])
        if name in {"and", "or"}:
            parts = [self._about(operand) for operand in ex.arguments(expression)]
            known = [part for part in parts if part is not None]
            same = len(known) == len(parts) and len({part.key for part in known}) == 1
            return _joined(name or "", known) if same else None
        if expression.WhichOneof("rex_type") == "singular_or_list":
            return self._listed(expression)
        return None

    def _negated(self, operand: Expression) -> _About | None:
        if self._functions.name(operand) in self.calls:  # the operand is boolean
            if not self._filters:
                return None
            return _About(operand, Comparison(lambda answer: not answer, "NOT {}"))
        inner = self._about(operand)
        return None if inner is None else _About(inner.call, ~inner.comparison)

    def _sign(self, name: str, left: Expression, right: Expression) -> _About | None:
        if self._functions.name(left) not in self.calls:
            name, left, right = _TURNED.get(name, name), right, left
        value = _value(right)
        if self._functions.name(left) not in self.calls or value is None:
            return None
        sign, holds = _SIGNS[name]
        if sign in {"=", "<>"}:
            self._check_equality(left)
        return _About(left, Comparison(lambda answer: holds(answer, value), f"{{}} {sign} {_shown(value)}"))

    def _listed(self, expression: Expression) -> _About | None:
        listed = expression.singular_or_list
        values = [_value(option) for option in listed.options]
        if self._functions.name(listed.value) not in self.calls or None in values:
            return None
        self._check_equality(listed.value)
        text = f"{{}} IN ({', '.join(map(_shown, values))})"
        return _About(listed.value, Comparison(lambda answer: answer in values, text))

    def _check_equality(self, read: Expression) -> None:
        """Refuse to compare a call's expected value for equality, under a promise: each row would be asked for nothing.

        Raises:
            AICallError: the answer of the call is an expected value, such as 2.05.
        """
        call = self.calls[self._functions.name(read) or ""]
        if call.promise is not None and EXPECTED in call.reading.split():
            raise AICallError(
                f"{call.text}: its answer is an expected value such as 2.05, which hardly ever equals a number: write"
                " expected => false in the call, or a range such as BETWEEN 1.5 AND 2.5"
            )

    def _folded(self, about: _About) -> Expression:
        """Return a call of the stub of a comparison, with the arguments of the call that is compared."""
        call = compared(self.calls[self._functions.name(about.call) or ""], about.comparison)
        self.made[call.stub] = call
        anchor = next((a for a, name in self.names.items() if name == call.stub), None)
        if anchor is None:
            anchor = max(self.names, default=0) + 1
            self.names[anchor] = call.stub
        changed = Expression()
        changed.CopyFrom(about.call)
        changed.scalar_function.function_reference = anchor
        changed.scalar_function.output_type.CopyFrom(ex.BOOLEAN)
        return changed


def _joined(name: str, parts: Sequence[_About]) -> _About:
    join = Comparison.both if name == "and" else Comparison.either
    return _About(parts[0].call, reduce(join, (part.comparison for part in parts)))


def _binary(expression: Expression) -> Expression:
    """Return a call of the same function with two arguments; only their number counts."""
    copy = Expression()
    copy.CopyFrom(expression)
    del copy.scalar_function.arguments[2:]
    return copy


def _value(expression: Expression) -> Any:
    """Return the value of a literal that is a number or a text; None for other expressions."""
    if expression.WhichOneof("rex_type") != "literal":
        return None
    kind = expression.literal.WhichOneof("literal_type")
    if kind not in _LITERALS:
        return None
    value = getattr(expression.literal, kind)
    return value.value if kind == "var_char" else value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''").replace("{}", "{ }") + "'"
    return f"{value:g}"
