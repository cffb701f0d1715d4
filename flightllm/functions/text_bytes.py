r"""The bytes that a text means in a cast to `bytea`, as in `\x6162` and `a\000`."""

import re
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

TEXT_BYTES: Final = "__text_bytes"
"""The name of `text_bytes` as an SQL function."""
_ESCAPES: Final = re.compile(rb"\\(?:(\\)|([0-3][0-7]{2})|)")


def text_bytes(values: pa.Array) -> pa.Array:
    """Return the bytes of texts.

    Raises:
        SqlError: a text has no form of bytes.
    """
    try:
        return each_row(bytes_of, values, kind=pa.binary())
    except ValueError as error:
        raise SqlError(
            "a text has no form of bytes: write two hexadecimal digits for each byte after the x, and each backslash"
            " twice"
        ) from error


def bytes_of(text: str) -> bytes:
    """Return the bytes that a text means.

    Raises:
        ValueError: the text has no form of bytes.
    """
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return _ESCAPES.sub(_unescaped, text.encode())


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return b"\\"
    if not found[2]:
        raise ValueError(found.string)
    return bytes([int(found[2], 8)])


FUNCTIONS: Final = (OwnFunction(text_bytes, (pa.string(),), pa.binary(), TEXT_BYTES),)
