"""json_array_length: how many elements the list in a JSON text has."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import length, of_each


def bind(_: Engine) -> Callable[[pa.Array], pa.Array]:
    """Read each text."""
    return lambda texts: pa.array(of_each(texts, length), pa.int64())


FUNCTION = ScalarFunction(
    name="json_array_length",
    summary="How many elements the list in a JSON text has; NULL for all that is no list.",
    returns="bigint",
    arguments=(pa.string(),),
    output=pa.int64(),
    bind=bind,
)
