"""Replaces now() and its relatives in a plan by one instant, as constant folding does in other plans."""

from collections.abc import Callable, Mapping
from time import time_ns

from substrait.algebra_pb2 import Expression
from substrait.plan_pb2 import Plan

from flightllm.plan.substrait import messages

_DAY = 86_400 * 10**9
_UNSIGNED = 1
"""The type variation of a time of day in DataFusion's Substrait."""


def pin_time(plan: Plan) -> None:
    """Replace the time functions in a plan, in place, by literals; else each stage would use another time."""
    instant = time_ns()
    literals = {
        extension.extension_function.function_anchor: _LITERALS[extension.extension_function.name](instant)
        for extension in plan.extensions
        if extension.extension_function.name in _LITERALS
    }
    if not literals:
        return
    for expression in list(messages(plan, Expression)):
        if expression.WhichOneof("rex_type") == "scalar_function":
            literal = literals.get(expression.scalar_function.function_reference)
            if literal is not None:
                expression.CopyFrom(Expression(literal=literal))


_Literal = Expression.Literal
_LITERALS: Mapping[str, Callable[[int], Expression.Literal]] = {
    "now": lambda instant: _Literal(precision_timestamp=_Literal.PrecisionTimestamp(precision=9, value=instant)),
    "current_date": lambda instant: _Literal(date=instant // _DAY),
    "current_time": lambda instant: _Literal(
        precision_time=_Literal.PrecisionTime(precision=9, value=instant % _DAY), type_variation_reference=_UNSIGNED
    ),
}
