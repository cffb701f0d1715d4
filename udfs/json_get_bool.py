"""json_get_bool: the boolean at a path of a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import as_bool, json_function

FUNCTION = json_function(
    "json_get_bool", "The boolean at a path of a JSON text; NULL for other values.", pa.bool_(), as_bool
)
