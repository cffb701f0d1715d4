"""json_value: the text, number or boolean at a path of a JSON text, as text."""

import pyarrow as pa

from flightllm.functions.json_values import as_scalar, json_function

FUNCTION = json_function(
    "json_value",
    "The text, number or boolean at a path of a JSON text, as text; NULL for objects and lists.",
    pa.string(),
    as_scalar,
)
