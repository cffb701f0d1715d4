"""Reads the values at paths in JSON texts. A text that is not JSON has no values.

msgspec decodes one level at a time and keeps nested values as text, so numbers keep all their digits.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec
import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.base import ScalarFunction

Step = str | int
_T = TypeVar("_T")
_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]"'*\s]+) | \."(?P<quoted>(?:[^"\\]|\\.)*)" | \[\s*(?P<index>-?\d{1,9})\s*\]
    | \[\s*\#-(?P<last>\d{1,9})\s*\] | \[\s*'(?P<single>[^']*)'\s*\] | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]""",
    re.VERBOSE,
)
_PLACE = re.compile(r"0|[1-9][0-9]{0,8}")
_INTEGER = re.compile(rb"-?\d{1,19}\Z")
_MOST = 2**63
_TYPES: Mapping[pa.DataType, str] = {
    pa.string(): "text",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.list_(pa.string()): "list of text",
}
"""The name that users see for each result type."""


def json_function(
    name: str, summary: str, kind: pa.DataType, read: Callable[[bytes], object], *, by_path: bool = True
) -> ScalarFunction:
    """Return a SQL function that applies `read` to the value at a path in each JSON text, or to each whole text.

    The SQL function returns NULL if an argument is NULL, if the path has no value, or if `read` returns None.
    """

    def at(texts: pa.Array, paths: pa.Array) -> pa.Array:
        return pa.array(at_paths(texts, paths, read), kind)

    def whole(texts: pa.Array) -> pa.Array:
        return pa.array(of_each(texts, read), kind)

    return ScalarFunction(
        name=name,
        summary=summary,
        returns=_TYPES[kind],
        arguments=(pa.string(), pa.string()) if by_path else (pa.string(),),
        output=kind,
        bind=lambda _: at if by_path else whole,
    )


@lru_cache(maxsize=1024)
def read_path(path: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `$.a[0]."b c"`, or of a JSON pointer such as `/a/0/b c`.

    Any other text is the name of one field, as in DuckDB. A number in a JSON pointer is a position in a list.

    Raises:
        SqlError: the path has wildcards or filters, or is malformed.
    """
    if path.startswith("/"):
        return tuple(map(_pointed, path[1:].split("/")))
    if not path.startswith("$"):
        return (path,)
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise SqlError(
                f"the path {path[:100]!r} cannot be read at {path[at : at + 20]!r}: write names and positions, as in"
                """ '$.a[0]."b c"'"""
            )
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def _pointed(part: str) -> Step:
    """Return the step for one part of a JSON pointer (RFC 6901)."""
    return int(part) if _PLACE.fullmatch(part) else part.replace("~1", "/").replace("~0", "~")


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["last"] is not None:
        return -int(found["last"])
    quoted = found["quoted"] if found["quoted"] is not None else found["double"]
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted)
    return str(found["name"] if found["name"] is not None else found["single"])


def written_path(steps: tuple[Step, ...]) -> str:
    """Return the path with these steps as text, such as `$."a"[0]`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{_escaped(step)}"' for step in steps)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def at_paths(texts: pa.Array, paths: pa.Array, read: Callable[[bytes], _T | None]) -> Iterator[_T | None]:
    """Yield the result of `read` for the value at each row's path in the row's text; None for a row without a value."""
    for text, path in zip(texts.to_pylist(), paths.to_pylist(), strict=True):
        steps = None if text is None or path is None else _steps(path)
        value = None if steps is None else value_at(text, steps)
        yield None if value is None else read(value)


def _steps(path: str) -> tuple[Step, ...] | None:
    """Return the steps of a row's path; None for a malformed path."""
    try:
        return read_path(path)
    except SqlError:
        return None


def of_each(texts: pa.Array, read: Callable[[bytes], _T | None]) -> Iterator[_T | None]:
    """Yield the result of `read` for each text; None for NULL."""
    for text in texts.to_pylist():
        yield None if text is None else read(text.encode())


def value_at(text: str, steps: tuple[Step, ...]) -> bytes | None:
    """Return the JSON text of the value to which `steps` lead; None if there is no value or `text` is not JSON."""
    value = text.encode()
    try:
        for step in steps or ("",):
            if not steps:
                msgspec.json.decode(value)
            elif isinstance(step, str):
                value = bytes(memoryview(msgspec.json.decode(value, type=dict[str, msgspec.Raw])[step]))
            else:
                value = bytes(memoryview(msgspec.json.decode(value, type=list[msgspec.Raw])[step]))
    except (msgspec.DecodeError, RecursionError, LookupError):
        return None
    return value.strip()


def as_json(value: bytes) -> str:
    """Return a value as it is in the JSON text."""
    return value.decode()


def as_text(value: bytes) -> str | None:
    """Return a JSON string without its quotes, None for null, and the JSON text of any other value."""
    if value[:1] == b'"':
        return as_string(value)
    return None if value == b"null" else value.decode()


def as_scalar(value: bytes) -> str | None:
    """Return a JSON string, number or boolean as text; None for other values."""
    return None if value[:1] in {b"{", b"["} else as_text(value)


def as_string(value: bytes) -> str | None:
    """Return a JSON string without its quotes; None for other values."""
    try:
        return msgspec.json.decode(value, type=str) if value[:1] == b'"' else None
    except msgspec.DecodeError:  # the string has half of a surrogate pair
        return None


def as_int(value: bytes) -> int | None:
    """Return a whole number of 64 bits; None for other values."""
    number = int(value) if _INTEGER.match(value) else _MOST
    return number if -_MOST <= number < _MOST else None


def as_float(value: bytes) -> float | None:
    """Return a number; None for other values."""
    return float(value) if value[:1].isdigit() or value[:1] == b"-" else None


def as_bool(value: bytes) -> bool | None:
    """Return a boolean; None for other values."""
    return {b"true": True, b"false": False}.get(value)


def length(text: bytes) -> int | None:
    """Return how many elements a list has; None for other values."""
    try:
        return len(msgspec.json.decode(text, type=list[msgspec.Raw]))
    except (msgspec.DecodeError, RecursionError):
        return None


def keys(text: bytes) -> list[str] | None:
    """Return the names in an object; None for other values."""
    try:
        return list(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_json(text: bytes) -> bool:
    """Return whether a text is JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
