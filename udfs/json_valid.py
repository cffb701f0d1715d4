"""json_valid: whether a text is JSON."""

import pyarrow as pa

from flightllm.functions.json_values import is_json, json_function

FUNCTION = json_function("json_valid", "Return whether a text is JSON.", pa.bool_(), is_json, by_path=False)
