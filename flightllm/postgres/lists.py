"""Lists as PostgreSQL's arrays, in text and in binary form."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa

from flightllm.common.arrow_types import is_list
from flightllm.postgres.failures import WireError
from flightllm.postgres.messages import INT32
from flightllm.postgres.types import ELEMENTS, oid_of

Encode = Callable[[pa.Array], pa.Array]
_QUOTED = re.compile(rb'[{}",\\\s]|^$|^null$', re.IGNORECASE)
_SPECIAL = re.compile(rb'(["\\])')
_RAGGED = "an array has sub-arrays of different lengths, which PostgreSQL's binary form cannot hold"


def items(column: pa.Array) -> pa.Array:
    """Return the items of all lists of a column; `bounds` says which belong to which list."""
    offsets = column.offsets
    first = offsets[0].as_py() if len(offsets) else 0
    last = offsets[-1].as_py() if len(offsets) else 0
    return column.values.slice(first, last - first)


def bounds(column: pa.Array) -> list[tuple[int, int]]:
    """Return where each list begins and ends in `items`."""
    offsets = column.offsets.to_pylist()
    first = offsets[0] if offsets else 0
    return [(begin - first, end - first) for begin, end in pairwise(offsets)]


def texts(column: pa.Array, encode: Encode, plain: Encode) -> list[bytes | None]:
    """Return lists in text form, such as `{1,NULL,3}`. `encode` makes cells of items, and `plain` makes plain types."""
    valid, inner = column.is_valid().to_pylist(), plain(items(column))
    if is_list(inner.type):
        parts = [b"NULL" if part is None else part for part in texts(inner, encode, plain)]
    else:
        needs_quotes = not (pa.types.is_integer(inner.type) or pa.types.is_floating(inner.type))
        written = encode(inner).to_pylist()
        parts = [b"NULL" if part is None else _quoted(part) if needs_quotes else part for part in written]
    return [
        b"{" + b",".join(parts[begin:end]) + b"}" if ok else None
        for (begin, end), ok in zip(bounds(column), valid, strict=True)
    ]


def _quoted(part: bytes) -> bytes:
    return b'"' + _SPECIAL.sub(rb"\\\1", part) + b'"' if _QUOTED.search(part) else part


def binaries(column: pa.Array, encode: Encode, plain: Encode) -> list[bytes | None]:
    """Return lists in binary form.

    Raises:
        WireError: a list has sub-lists of different lengths.
    """
    element = ELEMENTS[oid_of(column.type)].to_bytes(4)
    return [None if found is None else _binary(*found, element) for found in _shapes(column, encode, plain)]


def _binary(lengths: list[int], parts: list[bytes | None], element: bytes) -> bytes:
    if not parts:
        return INT32.pack(0) + INT32.pack(0) + element
    header = INT32.pack(len(lengths)) + INT32.pack(int(None in parts)) + element
    sizes = b"".join(INT32.pack(length) + INT32.pack(1) for length in lengths)
    return header + sizes + b"".join(_NULL if part is None else INT32.pack(len(part)) + part for part in parts)


_NULL = INT32.pack(-1)
_Shape = tuple[list[int], list[bytes | None]]
"""The lengths of an array's dimensions, and its elements."""


def _shapes(column: pa.Array, encode: Encode, plain: Encode) -> list[_Shape | None]:
    inner = plain(items(column))
    found: list[Any] = _shapes(inner, encode, plain) if is_list(inner.type) else encode(inner).to_pylist()
    join = _joined if is_list(inner.type) else lambda parts: ([len(parts)], parts)
    valid = column.is_valid().to_pylist()
    return [join(found[begin:end]) if ok else None for (begin, end), ok in zip(bounds(column), valid, strict=True)]


def _joined(shapes: list[_Shape | None]) -> _Shape:
    lengths = None
    parts: list[bytes | None] = []
    for shape in shapes:
        if shape is None or (lengths is not None and shape[0] != lengths):
            raise WireError("2202E", _RAGGED, hint="ask for the result in text form, or select to_json of the column")
        lengths = shape[0]
        parts += shape[1]
    return [len(shapes), *(lengths or [])], parts
