"""Compute with literals that have a point exactly, as PostgreSQL does: DataFusion reads them as doubles."""

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

_ROUNDING: Final = frozenset({"round", "trunc"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", *_ROUNDING})
"""The signs and words of which a text must have one to compute with literals."""
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_EXACT: Final = Context(prec=38, traps=[Inexact, InvalidOperation])
LONGEST: Final = 38
"""The most digits of a decimal."""
_WHOLE_DIGITS: Final = 19
"""The most digits of a whole number that is surely no double."""
_DIVISION_DIGITS: Final = 16
"""The significant digits that a quotient has at least."""
_OPERATORS: Final[Mapping[str, Callable[[Decimal, Decimal], Decimal | None]]] = {
    "Plus": _EXACT.add,
    "Minus": _EXACT.subtract,
    "Multiply": _EXACT.multiply,
    "Divide": lambda left, right: _quotient(left, right) if right else None,
}


def has_decimal(text: ParsedText) -> bool:
    """Return whether a text has a literal with a point or an exponent, or of many digits."""
    numbers = (one.text for one in text.tokens if one.kind is TokenKind.NUMBER and not one.is_run)
    return any(not number.isdecimal() or len(number) > _WHOLE_DIGITS for number in numbers)


def exact_numbers(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `0.1 + 0.2` as `0.3`, and `1 / 2.0` as `0.50000000000000000000`.

    `round(1.005, 2)` rounds a decimal: the double of this literal lies below it.
    """
    return tree.rebuilt(_computed)


def is_inexact(value: Json) -> bool:
    """Return whether a value is a literal that DataFusion reads as a double, also with a sign and in parentheses."""
    return decimal_of(value) is not None and (_has_point(value) or len(_digits(value)) > _WHOLE_DIGITS)


def exact(value: Json) -> Json:
    """Return a literal that DataFusion reads as a double as a decimal; another expression stays the same object."""
    digits = digits_of(value)
    return value if digits is None else written(f"CAST('{decimal_of(value):f}' AS DECIMAL({digits[0]}, {digits[1]}))")


def digits_of(value: Json) -> tuple[int, int] | None:
    """Return the digits, and those after the point, of a literal that DataFusion reads as a double.

    Return None for another expression, and for more digits than a decimal has.
    """
    number = decimal_of(value) if is_inexact(value) else None
    if number is None:
        return None
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    digits = len(whole.lstrip("0")) + len(fraction) or 1
    return (digits, len(fraction)) if digits <= LONGEST else None


def decimal_of(value: Json) -> Decimal | None:
    """Return the number that a literal means, also with a sign and in parentheses; None for other expressions."""
    inner, negative = unnested(value), False
    while kind(inner) == "UnaryOp" and body(inner)["op"] == "Minus":
        inner, negative = unnested(body(inner)["expr"]), not negative
    if kind(inner) != "Value" or kind(body(inner)["value"]) != "Number":
        return None
    digits = str(body(body(inner)["value"])[0])
    if not _NUMBER.fullmatch(digits):
        return None
    return Decimal(digits).copy_negate() if negative else Decimal(digits)


def _computed(node: Node) -> Json:
    """Return the literal that an operator over literals gives; the same object for other nodes."""
    fields = body(node)
    if kind(node) == "Function" and function_name(fields) in _ROUNDING:
        return _rounded(node)
    if kind(node) != "BinaryOp" or fields["op"] not in _OPERATORS:
        return node
    left, right = decimal_of(fields["left"]), decimal_of(fields["right"])
    if left is None or right is None or not (_has_point(fields["left"]) or _has_point(fields["right"])):
        return node
    try:
        found = _OPERATORS[fields["op"]](_plain(left), _plain(right))
    except (Inexact, InvalidOperation):
        return node
    return node if found is None else _literal(found)


def _rounded(node: Node) -> Json:
    """Return `round(1.005, 2)` with a decimal; the same object for other values."""
    name, given = function_name(body(node)), arguments(body(node))
    number = exact(given[0]) if len(given) == 2 else None
    return node if number is None or number is given[0] else written(f"{name}(v, n)", v=number, n=given[1])


def _has_point(value: Json) -> bool:
    return not _digits(value).isdecimal()


def _digits(value: Json) -> str:
    """Return a literal as written, without its sign."""
    inner = unnested(value)
    while kind(inner) == "UnaryOp":
        inner = unnested(body(inner)["expr"])
    return str(body(body(inner)["value"])[0])


def _plain(number: Decimal) -> Decimal:
    """Return a number without a positive exponent, as PostgreSQL reads `1e3`."""
    return number.quantize(Decimal(1), context=_EXACT) if int(number.as_tuple().exponent) > 0 else number


def _literal(number: Decimal) -> Json:
    digits = f"{abs(number):f}"
    value: Json = {"Value": {"value": {"Number": (digits if "." in digits else f"{digits}.", False)}, SPAN: NOWHERE}}
    return {"Nested": {"UnaryOp": {"op": "Minus", "expr": value}}} if number < 0 else value


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    """Return a quotient with as many digits as PostgreSQL gives it: 16 significant ones or more, by groups of four."""
    (weight, first), (other_weight, other_first) = map(_group, (left, right))
    weight -= other_weight + (first <= other_first)
    scale = max(_DIVISION_DIGITS - 4 * weight, -int(left.as_tuple().exponent), -int(right.as_tuple().exponent), 0)
    quotient = Context(prec=2 * LONGEST + scale).divide(left, right)
    return quotient.quantize(Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP", context=Context(prec=2 * LONGEST))


def _group(number: Decimal) -> tuple[int, int]:
    """Return the place of a number's first group of four digits, counted from the point, and that group."""
    if not number:
        return 0, 0
    weight = number.adjusted() // 4
    return weight, int(abs(number).scaleb(-4 * weight))
