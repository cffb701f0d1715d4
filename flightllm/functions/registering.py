"""Registration of functions that need no model with DataFusion."""

from collections.abc import Callable
from functools import cache

import pyarrow as pa
from datafusion import SessionContext, udf

from flightllm.functions import Engine
from flightllm.functions.base import ScalarFunction
from flightllm.functions.registry import FunctionRegistry
from flightllm.functions.search import VECTOR_BYTES, vector_bytes


def register_scalars(context: SessionContext, functions: FunctionRegistry, engine: Callable[[], Engine]) -> None:
    """Register the ordinary functions of a registry; each is bound to the engine at its first call."""
    for scalar in functions.scalars():
        values = _bound_late(scalar, engine)
        context.register_udf(udf(values, list(scalar.arguments), scalar.output, "immutable", scalar.name))
    context.register_udf(udf(vector_bytes, [pa.list_(pa.float32())], pa.binary(), "immutable", VECTOR_BYTES))


def _bound_late(scalar: ScalarFunction, engine: Callable[[], Engine]) -> Callable[..., pa.Array]:
    @cache
    def bound() -> Callable[..., pa.Array]:
        return scalar.bind(engine())

    def values(*arguments: pa.Array) -> pa.Array:
        return bound()(*arguments)

    return values
