"""json_get_float: the number at a path of a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import as_float, json_function

FUNCTION = json_function(
    "json_get_float", "The number at a path of a JSON text; NULL for other values.", pa.float64(), as_float
)
