"""Read a JSON value as BigQuery does: INT64 and its kin refuse other kinds, and LAX_INT64 converts them."""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

import msgspec
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.json_values import as_string, is_json
from flightllm.functions.own import OwnFunction

JSON_SCALAR: Final = "__json_scalar"
"""The name in SQL of the function that reads a JSON value as the text of a value of a type."""
_MOST: Final = 2**63
_KINDS: Final[Mapping[bytes, str]] = {
    b"{": "an object",
    b"[": "a list",
    b'"': "a string",
    b"t": "a boolean",
    b"f": "a boolean",
    b"n": "null",
}
"""The kind of a JSON value by its first letter; any other value is a number."""


def json_scalars(texts: pa.Array, types: pa.Array, modes: pa.Array) -> pa.Array:
    """Return each JSON value as the text of a value of a type: BOOL, FLOAT64, INT64 or STRING.

    The mode is `strict`, `safe` or `lax`: a value of another kind is an error, NULL, or converted.

    Raises:
        SqlError: a value is of another kind, and the mode is `strict`.
    """
    columns = (texts.to_pylist(), types.to_pylist(), modes.to_pylist())
    return pa.array([_scalar(*row) for row in zip(*columns, strict=True)], pa.string())


def _scalar(text: str | None, type_: str, mode: str) -> str | None:
    if text is None:
        return None
    value = text.strip().encode()
    known = is_json(value)
    found = (_LAX if mode == "lax" else _EXACT)[type_](value) if known else None
    if found is None and mode == "strict":
        given = _KINDS.get(value[:1], "a number") if known else "a text that is not JSON"
        raise SqlError(
            f"{type_} of a JSON value needs {_NEEDED[type_]}, and a row has {given}: write LAX_{type_}(json) to convert"
            f" it, or SAFE.{type_}(json) for NULL"
        )
    return found


def _boolean(value: bytes) -> str | None:
    return value.decode() if value in {b"true", b"false"} else None


def _number(value: bytes) -> Decimal | None:
    if value[:1] == b"-" or value[:1].isdigit():
        return Decimal(value.decode())
    return None


def _whole(value: bytes) -> str | None:
    number = _number(value)
    return _of_64_bits(number) if number is not None and number == number.to_integral_value() else None


def _of_64_bits(number: Decimal) -> str | None:
    if number.copy_abs() > _MOST:  # before a number of many digits is written out
        return None
    whole = int(number.to_integral_value(ROUND_HALF_UP))
    return str(whole) if -_MOST <= whole < _MOST else None


def _float(value: bytes) -> str | None:
    return None if _number(value) is None else value.decode()


def _lax_boolean(value: bytes) -> str | None:
    if value[:1] == b'"':
        word = (as_string(value) or "").lower()
        return word if word in {"true", "false"} else None
    number = _number(value)
    return _boolean(value) if number is None else str(number != 0).lower()


def _lax_whole(value: bytes) -> str | None:
    if _boolean(value) is not None:
        return str(int(value == b"true"))
    number = _in_text(value) if value[:1] == b'"' else _number(value)
    return None if number is None or not number.is_finite() else _of_64_bits(number)


def _lax_float(value: bytes) -> str | None:
    number = _in_text(value) if value[:1] == b'"' else _number(value)
    return None if number is None else repr(float(number))


def _in_text(value: bytes) -> Decimal | None:
    try:
        return Decimal((as_string(value) or "").strip())
    except InvalidOperation:
        return None


def _lax_string(value: bytes) -> str | None:
    if value[:1] == b'"':
        return as_string(value)
    return None if value[:1] in {b"{", b"["} or value == b"null" else _plain(value)


def _plain(value: bytes) -> str:
    return str(msgspec.json.decode(value)) if value[:1] == b"-" or value[:1].isdigit() else value.decode()


_EXACT: Final[Mapping[str, Callable[[bytes], str | None]]] = {
    "BOOL": _boolean,
    "FLOAT64": _float,
    "INT64": _whole,
    "STRING": as_string,
}
_LAX: Final[Mapping[str, Callable[[bytes], str | None]]] = {
    "BOOL": _lax_boolean,
    "FLOAT64": _lax_float,
    "INT64": _lax_whole,
    "STRING": _lax_string,
}
_NEEDED: Final[Mapping[str, str]] = {
    "BOOL": "a boolean",
    "FLOAT64": "a number",
    "INT64": "a whole number of 64 bits",
    "STRING": "a string",
}


FUNCTIONS: Final = (OwnFunction(json_scalars, (pa.string(), pa.string(), pa.string()), pa.string(), JSON_SCALAR),)
