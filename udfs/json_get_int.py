"""json_get_int: the whole number at a path of a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import as_int, json_function

FUNCTION = json_function(
    "json_get_int", "The whole number at a path of a JSON text; NULL for other values.", pa.int64(), as_int
)
