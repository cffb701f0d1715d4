"""json_extract: the value at a path of a JSON text, as JSON."""

import pyarrow as pa

from flightllm.functions.json_values import as_json, json_function

FUNCTION = json_function(
    "json_extract", "The value at a path of a JSON text, as JSON; NULL where there is no value.", pa.string(), as_json
)
