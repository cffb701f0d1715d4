"""The order of texts, and quotients, in the words of the dialects `postgres` and `duckdb`."""

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from flightllm.attached.pushed.typed import NotSayableError, Typed, as_decimal, unit

_MOST_DIGITS: Final = 38
_WHOLE_DIGITS: Final = 15
"""The digits before the point that a quotient must have room for; more of them are an error at the source."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one dialect."""

    dialect: str

    def ordered(self, value: Typed) -> exp.Expr:
        """Return a value that a source orders and compares as this server does: texts by their code points."""
        if value.kind in {"other", "interval"}:
            raise NotSayableError("a comparison of this type")
        if value.kind != "text" or isinstance(value.sql, exp.Literal) or isinstance(value.sql.this, exp.Collate):
            return value.sql.copy()
        name = "C" if self.dialect == "postgres" else "binary"
        return exp.paren(exp.Collate(this=operand(value), expression=exp.to_identifier(name, quoted=True)))

    def quotient(self, left: Typed, right: Typed, digits: tuple[int, int]) -> exp.Expr:
        """Return a quotient of decimals, cut after its last digit as here: a database would round it."""
        scale = digits[1]
        if self.dialect == "postgres":
            grown = exp.paren(exp.Mul(this=exp.paren(left.sql), expression=exp.Literal.number(10**scale)))
            whole: exp.Expr = exp.Anonymous(this="div", expressions=[grown, right.sql])
            step = exp.cast(exp.Literal.string(unit(scale)), exp.DataType.build("numeric"))
            return as_decimal(exp.Mul(this=whole, expression=step), digits)
        more = scale - left.digits[1] + right.digits[1]
        if more < 0 or left.digits[0] + more > _MOST_DIGITS or _MOST_DIGITS - 2 * scale < _WHOLE_DIGITS:
            raise NotSayableError("a quotient with more than 38 digits")
        factor = exp.cast(exp.Literal.number(10**more), exp.DataType.build("hugeint", dialect="duckdb"))
        whole = exp.IntDiv(
            this=exp.paren(exp.Mul(this=_unscaled(left), expression=factor)), expression=_unscaled(right)
        )
        step = exp.cast(exp.Literal.string(unit(scale)), exp.DataType.build(f"decimal({scale}, {scale})"))
        return exp.Mul(this=as_decimal(whole, (_MOST_DIGITS - scale, 0)), expression=step)

    def ratio(self, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        """Return a quotient of floating point numbers; PostgreSQL has an error for a division by zero."""
        if self.dialect == "duckdb":
            return exp.paren(exp.Div(this=left, expression=right, typed=True))
        infinite = exp.Mul(
            this=left.copy(), expression=exp.cast(exp.Literal.string("Infinity"), exp.DataType.Type.DOUBLE)
        )
        is_zero = exp.EQ(this=right.copy(), expression=exp.Literal.number(0))
        return exp.Case(
            ifs=[exp.If(this=is_zero, true=infinite)], default=exp.Div(this=left, expression=right, typed=True)
        )


def operand(value: Typed) -> exp.Expr:
    """Return a value as an operand."""
    return wrapped(value.sql)


def wrapped(sql: exp.Expr) -> exp.Expr:
    """Return an expression in parentheses, if it needs them as an operand."""
    return exp.paren(sql) if isinstance(sql, exp.Binary | exp.Unary | exp.Case) else sql


def _unscaled(value: Typed) -> exp.Expr:
    """Return a decimal's digits as an integer of 128 bits."""
    digits, scale = value.digits
    if digits + scale > _MOST_DIGITS:
        raise NotSayableError("a quotient with more than 38 digits")
    factor = exp.cast(exp.Literal.number(10**scale), exp.DataType.build(f"decimal({scale + 1}, 0)"))
    grown = exp.Mul(this=as_decimal(value.sql.copy(), (digits, scale)), expression=factor)
    return exp.cast(exp.paren(grown), exp.DataType.build("hugeint", dialect="duckdb"))
