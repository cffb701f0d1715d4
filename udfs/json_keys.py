"""json_keys: the names in the object in a JSON text."""

import pyarrow as pa

from flightllm.functions.json_values import json_function, keys

FUNCTION = json_function(
    "json_keys",
    "The names in the object in a JSON text; NULL for other values.",
    pa.list_(pa.string()),
    keys,
    by_path=False,
)
