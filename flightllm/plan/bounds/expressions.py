"""Bounds on the value of each expression, computed from the bounds of its operands."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from operator import methodcaller
from typing import Any

import pyarrow as pa
from datafusion import Expr

from flightllm.common.stopping import check_wanted
from flightllm.plan.bounds import rules
from flightllm.plan.bounds.functions import AGGREGATES, HARMLESS, SCALARS
from flightllm.plan.bounds.patterns import wildcards
from flightllm.plan.bounds.rules import FunctionCall
from flightllm.plan.bounds.value import FLAG, BoundsTally, UnboundedError, ValueBounds, largest

NAMES = re.compile(r"\b([a-z_][a-z0-9_]*)\(")
OTHER = re.compile(r"\|\||SIMILAR TO|~|->|Binary\(")
"""Marks in an expression's text that need a check, besides function names."""
_REGEX = ("~", "~*", "!~", "!~*")
_STUB = "__ai_"
"""The prefix of stubs' names. DataFusion never evaluates a stub while it plans, and an answer is short."""
_NUMBER = re.compile(r"U?Int\d+\((-?\d+)\)|Float\d+\((-?[\d.eE+-]+)\)|Decimal\d+\(Some\((-?\d+)\)")
_CHECKED = 1_024
"""The number of expressions between two looks whether somebody still waits for the statement."""
_LISTS = ("make_array", "make_list")
_LONG_LIST = 512
"""From this many characters on, a list of numbers is bounded by its text."""
_PLAIN_LIST = re.compile(
    r"\w+\((?:(?:(?:U?Int|Float)\d\d?\((?:-?[\d.]++|NULL|-?inf|NaN)\)|Boolean\(\w++\)|NULL)(?:, (?=\w)|(?=\)\Z)))++\)"
)
"""The text of a list of nothing but numbers, flags and NULLs."""
_LEAVES = ("Column", "Literal", "Outer", "LambdaVariable", "Placeholder", "ScalarVariable")
_SAFE_DAYS = 28
_DAY_NANOSECONDS = 86_400 * 10**9
_FLAGS = frozenset(
    [
        *("IsNull", "IsNotNull", "IsTrue", "IsNotTrue", "IsFalse", "IsNotFalse", "IsUnknown", "IsNotUnknown"),
        *("Not", "Between", "InList", "Exists", "InSubquery", "SetComparison"),
    ]
)
_WIDEST_LIST = 64
_MARKS = re.compile(r"\|\||LIKE |SIMILAR TO|~|->|Binary\(|Values:|RecursiveQuery:|Unnest:")
_HIDDEN_CONCATS = 6
_PLAIN_LIKE = re.compile(r'LIKE Utf8\("[^"%]{0,60}(?:%[^"%]{0,60}){0,3}"\)')
_NO_FUNCTIONS = frozenset(["outer_ref"])
HIDDEN = ValueBounds(4_096)
"""The assumed result of a subquery whose expressions DataFusion does not give."""
Columns = Callable[[str], ValueBounds]
"""Return the bounds of the column with this name."""


class Expressions:
    """Bounds the expressions of one operator; `columns` are the operator's input, `rows` the rows in a batch."""

    def __init__(self, columns: Columns, rows: float, budget: BoundsTally) -> None:
        self._columns, self._rows, self._budget = columns, rows, budget

    def bound(self, expression: Expr) -> ValueBounds:
        """Return the bounds of an expression.

        Raises:
            UnboundedError: the expression, or a part of it, can exceed the budget.
        """
        # An explicit stack: a chain of 1,000 operators is deeper than Python's recursion limit.
        todo: list[tuple[Expr, int | None]] = [(expression, None)]
        done: list[ValueBounds] = []
        visited = 0
        while todo:
            node, count = todo.pop()
            visited += 1
            if not visited % _CHECKED:
                check_wanted()
            kind = node.variant_name()
            if count is not None:
                args = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(_varied(self._call(node, kind, args), kind, args))
            elif kind in _LEAVES:
                done.append(self._leaf(node, kind))
            elif kind == "ScalarFunction" and (plain := self._plain_list(node)) is not None:
                done.append(plain)
            else:
                operands = self._operands(node, kind)
                todo.append((node, len(operands)))
                todo.extend((operand, None) for operand in reversed(operands))
        return done[-1]

    def _plain_list(self, node: Expr) -> ValueBounds | None:
        """Return the bounds of a long list of numbers, as in a vector; None for other expressions.

        The text of the list tells its length, so no step of Python sees each number. The bounds are those of `listed`.
        """
        if node.rex_call_operator() not in _LISTS:
            return None
        text = node.canonical_name()
        if len(text) < _LONG_LIST or _PLAIN_LIST.fullmatch(text) is None:
            return None
        # A column can have the name `Int64(1)`. `map` over DataFusion's own method takes no step of Python.
        operands = node.expr.rex_call_operands()
        if set(map(methodcaller("variant_name"), operands)) != {"Literal"}:
            return None
        count, each = len(operands), 16 if "NULL" in text else 8
        call = FunctionCall("make_array", (ValueBounds(count * each, constant=True, distinct=1),), self._rows)
        value = rules.made(call, self._budget, ValueBounds(count * each + 8, count, each, total=count * each + 8))
        return replace(value, distinct=1)

    def _operands(self, node: Expr, kind: str) -> Sequence[Expr]:
        if kind in ("Exists", "ScalarSubquery"):
            return ()
        if kind == "GroupingSet":
            self.opaque(node.canonical_name())
            return ()
        if kind == "Unnest":
            return [Expr(node.to_variant().expr())]
        operands: Sequence[Expr] = node.rex_call_operands()
        if kind == "InList" and len(operands) > _WIDEST_LIST and not NAMES.search(text := node.canonical_name()):
            return operands[:1] if not OTHER.search(text) and "LIKE " not in text else operands
        return operands

    def _leaf(self, node: Expr, kind: str) -> ValueBounds:
        if kind == "Literal":
            return literal(node)
        if kind == "Column":
            return self._columns(node.to_variant().name())
        if kind == "Outer":
            return self._columns(node.canonical_name().removeprefix("outer_ref(").removesuffix(")").rpartition(".")[2])
        return ValueBounds(64)

    def _call(self, node: Expr, kind: str, args: Sequence[ValueBounds]) -> ValueBounds:
        if kind in ("ScalarFunction", "HigherOrderFunction"):
            return self._scalar(node.rex_call_operator(), args)
        if kind == "BinaryExpr":
            return self._binary(node.rex_call_operator(), args)
        if kind in ("Cast", "TryCast"):
            return rules.cast(self._as_call("a cast", args), self._budget, _target(node.canonical_name(), kind))
        if kind in ("Like", "RLike", "SimilarTo"):
            return self._like(node.rex_call_operator(), args)
        if kind == "ScalarSubquery":
            return HIDDEN
        if kind in _FLAGS:
            return replace(FLAG, constant=all(v.constant for v in args))
        if kind in ("Alias", "Negative"):
            return replace(args[0], literal=None, exact=None) if kind == "Negative" else args[0]
        if kind == "Case":
            return self._charged("CASE", largest(args))
        if kind == "AggregateFunction":
            return self._aggregate(node, args)
        return largest(args)

    def _as_call(self, name: str, args: Sequence[ValueBounds]) -> FunctionCall:
        return FunctionCall(name, args, self._rows)

    def _charged(self, name: str, value: ValueBounds) -> ValueBounds:
        self._budget.charge(name, value, 0, self._rows)
        return value

    def _scalar(self, name: str, args: Sequence[ValueBounds]) -> ValueBounds:
        if name.startswith(_STUB):
            return ValueBounds(1_024)
        return SCALARS.get(name, rules.unknown)(self._as_call(name, args), self._budget)

    def _binary(self, operator: str, args: Sequence[ValueBounds]) -> ValueBounds:
        left, right = args
        constant = left.constant and right.constant
        if operator == "||":
            return rules.added(self._as_call("||", args), self._budget)
        if operator in _REGEX:
            rules.check_regex(self._as_call(operator, args), self._budget, left, right)
            return replace(FLAG, constant=constant)
        number = inf
        if operator in ("+", "-"):
            number = left.number + right.number
        elif operator == "*":
            number = left.number * right.number if left.number and right.number else 0
        elif operator == "/" and right.exact is not None and abs(right.exact) >= 1:
            number = left.number / abs(right.exact)
        elif operator == "%":
            number = min(left.number, right.number)
        elif operator == "&":
            number = min(left.number, right.number) if left.exact or right.exact else inf
        elif operator not in ("/", "|", "<<", ">>", "#", "BITXOR", "DIV", "->", "->>"):
            return replace(FLAG, constant=constant)
        exact = None
        if left.exact is not None and right.exact is not None:
            exact = _exact(operator, left.exact, right.exact)
        return ValueBounds(
            max(16, left.bytes if operator.startswith("-") else 0),
            number=number,
            constant=constant,
            exact=exact,
            distinct=_kinds(operator, left.exact, right.exact),
        )

    def _like(self, name: str, args: Sequence[ValueBounds]) -> ValueBounds:
        text, pattern = args[:2]
        call = self._as_call(name.upper(), args)
        if "similar" in name:
            rules.check_regex(call, self._budget, text, pattern)
            return replace(FLAG, constant=call.constant)
        places = wildcards(pattern.literal) if pattern.literal is not None else pattern.bytes
        large = pattern.bytes if places > 2 or "_" in (pattern.literal or "_") else 1
        steps = text.spread(call.times) * max(1.0, large / 4)
        compiled = pattern.bytes * 2_000 if large > 1 else 0
        return rules.made(call, self._budget, FLAG, steps + compiled * (1 if pattern.constant else call.times / 100))

    def _aggregate(self, node: Expr, args: Sequence[ValueBounds]) -> ValueBounds:
        text = node.canonical_name()
        rest = [part for part in (" FILTER (", " ORDER BY [", "WITHIN GROUP") if part in text]
        if rest:
            self.opaque(text[min(text.index(part) for part in rest) :])
        name = text.partition("(")[0]
        kind = AGGREGATES.get(name)
        if kind == "number":
            return ValueBounds(40)
        if kind is None:
            return rules.unknown(self._as_call(name, args), self._budget)
        return largest(args)

    def opaque(self, text: str) -> None:
        """Check the text of an expression whose parts DataFusion does not give; see `check_hidden`."""
        check_hidden(Counter(marks(text)), text)


def _varied(value: ValueBounds, kind: str, args: Sequence[ValueBounds]) -> ValueBounds:
    """Bound the number of distinct values by the operands' product; without operands it can be `random()`."""
    if not args or kind in ("AggregateFunction", "Unnest", "ScalarSubquery"):
        return replace(value, distinct=inf)
    given = [v.distinct for v in args]
    most = min(prod(given), sum(given)) if kind == "Case" else prod(given)
    return value if value.distinct <= most else replace(value, distinct=most)


def marks(text: str) -> list[str]:
    """Return the function names and operators in an operator's text that need a check, with repetitions."""
    return [*NAMES.findall(text), *_MARKS.findall(text)]


def is_harmless(name: str) -> bool:
    """Return whether a function's values are small and quick to compute for all arguments."""
    return name in HARMLESS or name in _NO_FUNCTIONS or name.startswith(_STUB)


def has_plain_likes(text: str) -> bool:
    """Return whether every LIKE in a text has a short literal pattern with few wildcards."""
    return len(_PLAIN_LIKE.findall(text)) == text.count("LIKE ")


def check_hidden(found: Counter[str], text: str) -> None:
    """Check the function names and operators found where DataFusion hides expressions; `text` is the whole text.

    Raises:
        UnboundedError: one of them is not harmless for all arguments.
    """
    for name, count in found.items():
        if name == "||" and count <= _HIDDEN_CONCATS:
            continue
        if name == "LIKE " and has_plain_likes(text):
            continue
        if not is_harmless(name):
            raise UnboundedError(f"{name.strip(' (:')} is in a subquery, or its arguments cannot be checked")


def literal(node: Expr) -> ValueBounds:
    """Return the bounds of a literal."""
    return replace(_literal(node), distinct=1)


def _literal(node: Expr) -> ValueBounds:
    text = node.canonical_name()
    if text.startswith(("Utf8", "LargeUtf8")):
        inner = text[text.index("(") + 2 : -2]
        return ValueBounds(len(inner.encode()), number=inf, total=inf, constant=True, literal=inner)
    if match := _NUMBER.match(text):
        number = float(next(group for group in match.groups() if group))
        return ValueBounds(8, number=abs(number), constant=True, exact=number)
    if text.startswith("Interval"):
        return _interval(node)
    if text.startswith(
        ("Binary", "LargeBinary", "FixedSizeBinary", "List", "LargeList", "Struct", "Map", "Dictionary")
    ):
        return _scalar_value(node)
    return ValueBounds(16, number=0 if text in ("NULL", "Int64(NULL)") else inf, constant=True)


def _interval(node: Expr) -> ValueBounds:
    found = node.python_value().as_py()
    months, days, nanoseconds = (found or (0, 0, 0))[:3] if isinstance(found, tuple) else (0, 0, 0)
    exact = months * _SAFE_DAYS + days + nanoseconds / _DAY_NANOSECONDS
    return ValueBounds(16, number=abs(exact) if exact else inf, constant=True, exact=exact or None)


def _scalar_value(node: Expr) -> ValueBounds:
    value: Any = node.python_value()
    if value.as_py() is None:
        return ValueBounds(8, constant=True)
    array = pa.array([value.as_py()], value.type)
    items = len(value.as_py()) if hasattr(value.as_py(), "__len__") and not isinstance(value.as_py(), bytes) else 1
    return ValueBounds(array.nbytes, items, array.nbytes if items > 1 else 0, constant=True)


def _target(text: str, kind: str) -> str:
    """Return the target type, which ends the text of a cast."""
    return text.rpartition(" AS ")[2].removesuffix(")") if kind else text


def _kinds(operator: str, left: float | None, right: float | None) -> float:
    """Return how many distinct whole numbers from 0 on an operator can make with a literal operand."""
    if operator == "%" and right is not None and right.is_integer():
        return max(1.0, abs(right))
    if operator == "&":
        return min((2.0 ** int(abs(mask)).bit_count() for mask in (left, right) if mask is not None), default=inf)
    return inf


def _exact(operator: str, left: float, right: float) -> float | None:
    known: Mapping[str, Callable[[], float]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
    }
    return known[operator]() if operator in known else None
