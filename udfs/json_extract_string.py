"""json_extract_string: the value at a path of a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_text, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_text), pa.string())


FUNCTION = ScalarFunction(
    name="json_extract_string",
    summary="The value at a path of a JSON text, as text: that of a text without quotes, NULL for null.",
    returns="text",
    arguments=(pa.string(), pa.string()),
    output=pa.string(),
    bind=bind,
)
