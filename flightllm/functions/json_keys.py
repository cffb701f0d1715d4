"""The names in JSON objects, as BigQuery lists them."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

JSON_KEYS: Final = "__json_keys"
"""The name of `json_keys` as an SQL function."""


def json_keys(texts: pa.Array, depths: pa.Array) -> pa.Array:
    """Return the paths of the names in JSON objects, in alphabetical order; objects in lists do not count.

    Raises:
        SqlError: a text is not JSON.
    """
    return each_row(_keys, texts, depths, kind=pa.list_(pa.string()))


def _keys(text: str, depth: int) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SqlError(f"JSON_KEYS takes JSON, and not {text[:60]!r}: write PARSE_JSON('{{}}')") from error
    return sorted(set(_below(value, "", depth)))


def _below(value: Any, before: str, depth: int) -> Iterator[str]:
    if not isinstance(value, dict) or depth < 1:
        return
    for name, inner in value.items():
        path = before + (name if name.replace("_", "a").isalnum() else json.dumps(name, ensure_ascii=False))
        yield path
        yield from _below(inner, f"{path}.", depth - 1)


FUNCTIONS: Final = (OwnFunction(json_keys, (pa.string(), pa.int64()), pa.list_(pa.string()), JSON_KEYS),)
