"""json_keys: the names in the object in a JSON text."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import keys, of_each


def bind(_: Engine) -> Callable[[pa.Array], pa.Array]:
    """Read each text."""
    return lambda texts: pa.array(of_each(texts, keys), pa.list_(pa.string()))


FUNCTION = ScalarFunction(
    name="json_keys",
    summary="The names in the object in a JSON text; NULL for all that is no object.",
    returns="list of text",
    arguments=(pa.string(),),
    output=pa.list_(pa.string()),
    bind=bind,
)
