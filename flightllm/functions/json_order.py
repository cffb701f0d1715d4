"""The order of jsonb values: a key for each JSON text. The order of the keys is PostgreSQL's order of the values."""

import json
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

JSON_KEY: Final = "__json_key"
"""The name in SQL of the function that returns the key of a JSON text."""
_EMPTY, _NULL, _TEXT, _NUMBER, _TRUTH, _LIST, _OBJECT = (bytes([place]) for place in range(7))
"""The first byte of each kind of values. An empty list outside of all others comes before null, as in PostgreSQL."""
_MIDDLE: Final = 1 << 31
_OTHERS: Final = bytes(255 - one for one in range(256))


def json_keys(texts: pa.Array) -> pa.Array:
    """Return the keys of JSON texts, bytes in hexadecimal digits: equal values have equal keys, and 1.0 is equal to 1.

    Values are null, texts, numbers, truth values, lists and objects, in this order. A longer list or object is greater.

    Raises:
        SqlError: a text is not JSON.
    """
    return each_row(lambda text: (_EMPTY if (value := _read(text)) == [] else _key(value)).hex(), texts)


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_int=Decimal, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise SqlError(f"the text {text[:60]!r} beside a jsonb is not JSON: write a text as '\"text\"'") from error


def _key(value: Any) -> bytes:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUTH + bytes([value])
    if isinstance(value, str):
        return _TEXT + _text(value.encode())
    if isinstance(value, Decimal):
        return _NUMBER + _number(value)
    if isinstance(value, list):
        return _LIST + len(value).to_bytes(4) + b"".join(map(_key, value))
    fields = sorted(((name.encode(), one) for name, one in value.items()), key=lambda one: (len(one[0]), one[0]))
    return _OBJECT + len(fields).to_bytes(4) + b"".join(_text(name) + _key(one) for name, one in fields)


def _text(text: bytes) -> bytes:
    return text.replace(b"\0", b"\0\xff") + b"\0\0"


def _number(value: Decimal) -> bytes:
    """Return the sign, the exponent and the digits: those of a number below zero are turned around."""
    if not value:
        return b"\1"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    size = (value.adjusted() + _MIDDLE).to_bytes(4) + digits.encode() + b"\0"
    return b"\2" + size if value > 0 else b"\0" + size.translate(_OTHERS)


FUNCTIONS: Final = (OwnFunction(json_keys, (pa.string(),), pa.string(), JSON_KEY),)
