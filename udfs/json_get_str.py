"""json_get_str: the text at a path of a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_string, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_string), pa.string())


FUNCTION = ScalarFunction(
    name="json_get_str",
    summary="The text at a path of a JSON text; NULL for all that is no text.",
    returns="text",
    arguments=(pa.string(), pa.string()),
    output=pa.string(),
    bind=bind,
)
