"""json_get_float: the number at a path of a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_float, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_float), pa.float64())


FUNCTION = ScalarFunction(
    name="json_get_float",
    summary="The number at a path of a JSON text; NULL for all that is none.",
    returns="double",
    arguments=(pa.string(), pa.string()),
    output=pa.float64(),
    bind=bind,
)
