"""Expressions of a SELECT with the kinds of their values."""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from math import isfinite
from typing import Final, Literal, TypeAlias

from sqlglot import exp
from substrait.algebra_pb2 import Expression
from substrait.type_pb2 import Type

Kind: TypeAlias = Literal["int", "float", "decimal", "text", "bool", "date", "timestamp", "interval", "other"]
"""The kinds of values that a source compares and computes as this server does; nothing is computed with `other`."""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("i8", "i16", "i32", "i64"), "int"),
    **dict.fromkeys(("fp32", "fp64"), "float"),
    **dict.fromkeys(("string", "varchar", "fixed_char"), "text"),
    "bool": "bool",
    "date": "date",
    "decimal": "decimal",
    "precision_timestamp": "timestamp",
    "interval_compound": "interval",
}
_NAMES: Final[dict[tuple[Kind, int], str]] = {
    ("int", 16): "smallint",
    ("int", 32): "int",
    ("int", 64): "bigint",
    ("float", 32): "real",
    ("float", 64): "double",
    ("text", 64): "text",
    ("bool", 64): "boolean",
    ("date", 64): "date",
    ("timestamp", 64): "timestamp",
}
"""The names of types in casts, by their kinds and widths."""
_FIRST_DAY: Final = date(1970, 1, 1)
_LEAST: Final = -(2**63)
_UNSIGNED: Final = 1
"""The variation of DataFusion's Substrait types for numbers without a sign."""


class NotSayableError(Exception):
    """A part of a plan has no equal in a dialect."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression with its kind; decimals have their precision and scale too."""

    sql: exp.Expr
    kind: Kind
    digits: tuple[int, int] = (0, 0)
    width: int = 64
    """The bits of an integer or of a floating point number."""

    @property
    def shape(self) -> tuple[Kind, tuple[int, int], int]:
        """Return the type, which rows of a union must share."""
        return self.kind, self.digits, self.width


def of_type(sql: exp.Expr, given: Type) -> Typed:
    """Return an expression with a type of the plan."""
    name = given.WhichOneof("kind") or ""
    kind = _KINDS.get(name, "other")
    if kind == "decimal":
        return Typed(sql, kind, (given.decimal.precision, given.decimal.scale))
    if kind == "int" and getattr(given, name).type_variation_reference == _UNSIGNED:
        return Typed(sql, "other")
    width = int(name[1:] if kind == "int" else name[2:]) if kind in {"int", "float"} else 64
    return Typed(sql, kind, width=width)


def null_of(given: Type) -> Typed:
    """Return NULL with a type: a source would give a bare NULL another type, or find no function for it.

    Raises:
        NotSayableError: the type has no equal.
    """
    found = of_type(exp.null(), given)
    if found.kind == "decimal":
        return replace(found, sql=as_decimal(exp.null(), found.digits))
    name = _NAMES.get((found.kind, found.width))
    if name is None:
        raise NotSayableError("NULL of this type")
    return replace(found, sql=exp.cast(exp.null(), exp.DataType.build(name)))


def is_null(sql: exp.Expr) -> bool:
    """Return whether an expression is NULL with a type."""
    return isinstance(sql, exp.Cast) and isinstance(sql.this, exp.Null)


def as_decimal(sql: exp.Expr, digits: tuple[int, int]) -> exp.Expr:
    """Return a cast to a decimal of a precision and a scale."""
    return exp.cast(sql, exp.DataType.build(f"decimal({digits[0]}, {digits[1]})"))


def unit(scale: int) -> str:
    """Return the smallest step of decimals of a scale, as text."""
    return format(Decimal(1).scaleb(-scale), "f")


def constant(given: Expression.Literal) -> Typed:
    """Return a constant of a plan.

    Raises:
        NotSayableError: a dialect can read the constant in another way.
    """
    name = given.WhichOneof("literal_type") or ""
    match name:
        case "null":
            return null_of(given.null)
        case "i8" | "i16" | "i32" | "i64" if given.type_variation_reference != _UNSIGNED:
            return Typed(_whole(getattr(given, name)), "int", width=int(name[1:]))
        case "fp64" if isfinite(given.fp64):
            return Typed(exp.cast(exp.Literal.string(repr(given.fp64)), exp.DataType.Type.DOUBLE), "float")
        case "string" if "\0" not in given.string and "\\" not in given.string:
            return Typed(exp.Literal.string(given.string), "text")
        case "boolean":
            return Typed(exp.true() if given.boolean else exp.false(), "bool")
        case "date":
            return Typed(exp.cast(exp.Literal.string(_day(given.date)), exp.DataType.Type.DATE), "date")
        case "decimal":
            digits = given.decimal.precision, given.decimal.scale
            unscaled = int.from_bytes(given.decimal.value, "little", signed=True)
            text = format(Decimal(unscaled).scaleb(-digits[1]), "f")
            return Typed(as_decimal(exp.Literal.string(text), digits), "decimal", digits)
    raise NotSayableError(f"a {name} value")


def _whole(value: int) -> exp.Expr:
    if value == _LEAST:
        raise NotSayableError("the smallest integer")
    number = exp.Literal.number(abs(value))
    return exp.paren(exp.Neg(this=number)) if value < 0 else number


def _day(days: int) -> str:
    try:
        return (_FIRST_DAY + timedelta(days=days)).isoformat()
    except OverflowError as error:
        raise NotSayableError("a date beyond the year 9999") from error
