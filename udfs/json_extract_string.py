"""json_extract_string: the value at a path of a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import as_text, json_function

FUNCTION = json_function(
    "json_extract_string",
    "The value at a path of a JSON text, as text: a text without its quotes, and NULL for null.",
    pa.string(),
    as_text,
)
