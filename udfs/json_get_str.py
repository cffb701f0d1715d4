"""json_get_str: the text at a path of a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import as_string, json_function

FUNCTION = json_function(
    "json_get_str", "The text at a path of a JSON text; NULL for other values.", pa.string(), as_string
)
