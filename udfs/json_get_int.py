"""json_get_int: the whole number at a path of a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_int, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_int), pa.int64())


FUNCTION = ScalarFunction(
    name="json_get_int",
    summary="The whole number at a path of a JSON text; NULL for all that is none.",
    returns="bigint",
    arguments=(pa.string(), pa.string()),
    output=pa.int64(),
    bind=bind,
)
