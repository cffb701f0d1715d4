"""The types of a statement's parameters, as DataFusion infers them from their places in the statement."""

from collections.abc import Callable, Mapping

import pyarrow as pa
from datafusion import LogicalPlan, SessionContext
from datafusion.substrait import Producer
from substrait.algebra_pb2 import DynamicParameter, FetchRel
from substrait.plan_pb2 import Plan
from substrait.type_pb2 import Type

from flightllm.plan.substrait import messages

_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_UNSIGNED = 1
"""The type variation that marks unsigned integers in DataFusion's Substrait."""


def parameter_types(plan: LogicalPlan, context: SessionContext) -> Mapping[int, pa.DataType]:
    """Return the types of a plan's parameters `$1`, `$2`, …, by index from 0; unknown ones are left out.

    Raises DataFusion's error where Substrait cannot express the plan.
    """
    found: dict[int, pa.DataType] = {}
    encoded = Plan.FromString(Producer.to_substrait_plan(plan, context).encode())
    for parameter in messages(encoded, DynamicParameter):
        kind = arrow_type(parameter.type)
        if kind is not None:
            found.setdefault(parameter.parameter_reference, kind)
    for fetch in messages(encoded, FetchRel):  # DataFusion gives LIMIT and OFFSET no type
        for counted in (fetch.count_expr, fetch.offset_expr):
            found.update(
                (parameter.parameter_reference, pa.int64()) for parameter in messages(counted, DynamicParameter)
            )
    return found


def arrow_type(given: Type) -> pa.DataType | None:
    """Return the Arrow type of a plain Substrait type, or None for other types."""
    kind = given.WhichOneof("kind")
    if kind is None:
        return None
    value = getattr(given, kind)
    unsigned = kind in _INTEGERS and value.type_variation_reference == _UNSIGNED
    if unsigned:
        return _INTEGERS[kind][1]
    if kind in _INTEGERS:
        return _INTEGERS[kind][0]
    if kind in _PLAIN:
        return _PLAIN[kind]
    return _PRECISE[kind](value) if kind in _PRECISE else None


_INTEGERS = {
    "i8": (pa.int8(), pa.uint8()),
    "i16": (pa.int16(), pa.uint16()),
    "i32": (pa.int32(), pa.uint32()),
    "i64": (pa.int64(), pa.uint64()),
}
_PLAIN = {
    "bool": pa.bool_(),
    "fp32": pa.float32(),
    "fp64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
_PRECISE: Mapping[str, Callable[[Type], pa.DataType | None]] = {
    "decimal": lambda value: pa.decimal128(value.precision, value.scale),
    "precision_timestamp": lambda value: pa.timestamp(_UNITS[value.precision]),
    "precision_timestamp_tz": lambda value: pa.timestamp(_UNITS[value.precision], "UTC"),
    "precision_time": lambda value: pa.time64("ns") if value.precision == 9 else pa.time64("us"),
}
