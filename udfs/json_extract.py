"""json_extract: the value at a path of a JSON text, as JSON."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_json, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_json), pa.string())


FUNCTION = ScalarFunction(
    name="json_extract",
    summary="The value at a path of a JSON text, as JSON; NULL where there is none.",
    returns="text",
    arguments=(pa.string(), pa.string()),
    output=pa.string(),
    bind=bind,
)
