"""json_valid: tell whether a text is JSON."""

from collections.abc import Callable

import pyarrow as pa

from flightllm.functions import Engine, ScalarFunction
from flightllm.functions.json_values import is_json, of_each


def bind(_: Engine) -> Callable[[pa.Array], pa.Array]:
    """Read each text."""
    return lambda texts: pa.array(of_each(texts, is_json), pa.bool_())


FUNCTION = ScalarFunction(
    name="json_valid",
    summary="Tell whether a text is JSON.",
    returns="boolean",
    arguments=(pa.string(),),
    output=pa.bool_(),
    bind=bind,
)
