"""json_get_bool: the boolean at a path of a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import as_bool, at_paths


def bind(_: Engine) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Read each text with its path."""
    return lambda texts, paths: pa.array(at_paths(texts, paths, as_bool), pa.bool_())


FUNCTION = ScalarFunction(
    name="json_get_bool",
    summary="The boolean at a path of a JSON text; NULL for all that is none.",
    returns="boolean",
    arguments=(pa.string(), pa.string()),
    output=pa.bool_(),
    bind=bind,
)
