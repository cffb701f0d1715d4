"""json_value: the text, number or boolean at a path of a JSON text, as text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_scalar, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_scalar), pa.string())


FUNCTION = ScalarFunction(
    name="json_value",
    summary="The text, number or boolean at a path of a JSON text, as text; NULL for objects and lists.",
    returns="text",
    arguments=(pa.string(), pa.string()),
    output=pa.string(),
    bind=bind,
)
