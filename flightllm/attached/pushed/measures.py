"""Aggregates of a plan in the dialect of a source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp
from substrait.algebra_pb2 import AggregateFunction, AggregateRel

from flightllm.attached.pushed.typed import NotSayableError, Typed, as_decimal
from flightllm.attached.pushed.values import ValueWriter

_MOST_DIGITS: Final = 38
_COUNT: Final = (19, 0)
"""The digits of a count as a decimal."""


@dataclass(frozen=True, slots=True)
class _Given:
    """The argument of one aggregate, and the condition of its FILTER."""

    value: Typed
    inner: exp.Expr
    keep: exp.Expr | None
    values: ValueWriter

    def filtered(self, call: exp.Expr) -> exp.Expr:
        return call if self.keep is None else exp.Filter(this=call, expression=exp.Where(this=self.keep.copy()))


def measured(measure: AggregateRel.Measure, columns: Sequence[Typed], values: ValueWriter) -> Typed:
    """Return one aggregate over columns.

    Raises:
        NotSayableError: the dialect has no equal of the aggregate.
    """
    function: AggregateFunction = measure.measure
    name = values.functions.names[function.function_reference]
    if function.sorts or len(function.arguments) != 1:
        raise NotSayableError(f"{name} in an order, or of several values")
    value = values.value(function.arguments[0].value, columns)
    keep = values.condition(measure.filter, columns) if measure.HasField("filter") else None
    distinct = function.invocation == AggregateFunction.AGGREGATION_INVOCATION_DISTINCT
    inner = values.words.ordered(value) if distinct or name in {"min", "max"} else value.sql
    if distinct:
        inner = exp.Distinct(expressions=[inner])
    writer = _MEASURES.get(name)
    given = _Given(value, inner, keep, values)
    is_star = name == "count" and isinstance(value.sql, exp.Literal) and not distinct
    found = _count_star(given) if is_star else None if writer is None else writer(given, name)
    if found is None:
        raise NotSayableError(f"{name} of {value.kind}")
    return found


def _count_star(given: _Given) -> Typed:
    return Typed(given.filtered(exp.Count(this=exp.Star())), "int")


def _count(given: _Given, _: str) -> Typed:
    return Typed(given.filtered(exp.Count(this=given.inner)), "int")


def _sum(given: _Given, _: str) -> Typed | None:
    value = given.value
    match value.kind:
        case "int":
            total = given.filtered(exp.Sum(this=given.inner))
            return Typed(exp.cast(total, exp.DataType.Type.BIGINT), "int")
        case "float":
            return Typed(given.filtered(exp.Sum(this=_doubled(given))), "float")
        case "decimal":
            digits = min(_MOST_DIGITS, value.digits[0] + 10), value.digits[1]
            return Typed(as_decimal(given.filtered(exp.Sum(this=given.inner)), digits), "decimal", digits)
    return None


def _average(given: _Given, _: str) -> Typed | None:
    value = given.value
    if value.kind == "float":
        return Typed(given.filtered(exp.Avg(this=_doubled(given))), "float")
    if value.kind != "decimal":
        return None
    room = min(_MOST_DIGITS, value.digits[0] + 10), value.digits[1]
    whole = Typed(given.filtered(exp.Sum(this=given.inner)), "decimal", room)
    number = exp.cast(given.filtered(exp.Count(this=given.inner.copy())), exp.DataType.build("decimal(19, 0)"))
    counted = Typed(exp.func("NULLIF", number, exp.Literal.number(0)), "decimal", _COUNT)
    digits = min(_MOST_DIGITS, value.digits[0] + 4), min(_MOST_DIGITS, value.digits[1] + 4)
    return Typed(given.values.words.quotient(whole, counted, digits), "decimal", digits)


def _least(given: _Given, name: str) -> Typed | None:
    if given.value.kind in {"bool", "interval", "other"}:
        return None
    call = exp.Min(this=given.inner) if name == "min" else exp.Max(this=given.inner)
    return replace(given.value, sql=given.filtered(call))


def _doubled(given: _Given) -> exp.Expr:
    """Return floats of 64 bits: this server adds floats of 32 bits so."""
    return given.inner if given.value.width == 64 else exp.cast(given.inner, exp.DataType.Type.DOUBLE)


_MEASURES: Final[Mapping[str, Callable[[_Given, str], Typed | None]]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": _least,
    "max": _least,
}
