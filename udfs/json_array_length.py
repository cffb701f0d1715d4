"""json_array_length: how many elements the list in a JSON text has."""

import pyarrow as pa

from flightllm.functions.json_values import json_function, length

FUNCTION = json_function(
    "json_array_length",
    "How many elements the list in a JSON text has; NULL for other values.",
    pa.int64(),
    length,
    by_path=False,
)
