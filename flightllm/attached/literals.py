"""Constants in the dialects of sources: each is quoted by the dialect's generator, or does not go out."""

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite

import pyarrow as pa
from sqlglot import exp

_YEARS = range(1, 10_000)


def plain(value: pa.Scalar) -> exp.Expr | None:
    """Write a number, a truth value or a text; None for other constants."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_boolean(kind):
        return exp.true() if value.as_py() else exp.false()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = value.as_py()
        return None if "\0" in text or "\\" in text else exp.Literal.string(text)
    if pa.types.is_integer(kind):
        return _number(str(value.as_py()))
    if pa.types.is_decimal(kind):
        return _number(format(Decimal(value.as_py()), "f"))
    if pa.types.is_floating(kind) and isfinite(value.as_py()):
        return _number(repr(float(value.as_py())))
    return None


def with_times(value: pa.Scalar) -> exp.Expr | None:
    """Write what `plain` writes, and dates and timestamps."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_date(kind):
        try:
            day: date = value.as_py()
        except (OverflowError, ValueError):  # a year that Python's dates do not have
            return None
        return exp.cast(exp.Literal.string(day.isoformat()), exp.DataType.Type.DATE)
    if pa.types.is_timestamp(kind):
        return _timestamp(value)
    return plain(value)


def _number(digits: str) -> exp.Expr:
    if digits.startswith("-"):
        return exp.paren(exp.Neg(this=exp.Literal.number(digits[1:])))
    return exp.Literal.number(digits)


def _timestamp(value: pa.Scalar) -> exp.Expr | None:
    micros = value.cast(pa.timestamp("us", value.type.tz), safe=False)
    if micros.cast(value.type, safe=False) != value:  # nanoseconds
        return None
    try:
        moment: datetime = micros.as_py()
    except (OverflowError, ValueError):
        return None
    if moment.year not in _YEARS:
        return None
    if value.type.tz is None:
        return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), exp.DataType.Type.TIMESTAMP)
    text = moment.astimezone(UTC).isoformat(sep=" ")
    return exp.cast(exp.Literal.string(text), exp.DataType.Type.TIMESTAMPTZ)
