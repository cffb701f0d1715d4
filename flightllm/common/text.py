"""Values as text and as JSON, for people and for programs."""

import json
import math
from typing import Any

from flightllm.errors import InvalidInputError

_SHOWN = 300
"""Characters of a foreign text that an error shows."""


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: each lone surrogate becomes U+FFFD, the replacement character.

    UTF-8 has no lone surrogates, so Arrow, SQLite and gRPC refuse them. NUL stays, because all three accept it.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def check_well_formed(text: str, what: str) -> None:
    """Check that a user's text is valid Unicode; replacing characters would change what the text says.

    Raises:
        InvalidInputError: the text has a lone surrogate; the error says where.
    """
    if well_formed(text) is not text:
        place = next(place for place, one in enumerate(text, 1) if "\ud800" <= one <= "\udfff")
        raise InvalidInputError(
            f"{what} has half of a surrogate pair, U+{ord(text[place - 1]):04X}, as character {place}: write the whole"
            " character, in UTF-8"
        )


def well_formed_value(value: Any) -> Any:
    """Return a value with `well_formed` applied to all texts in it, including dictionary keys."""
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {well_formed_value(name): well_formed_value(item) for name, item in value.items()}
        case list() | tuple():
            return [well_formed_value(item) for item in value]
        case _:
            return value


def excerpt(text: str, most: int = _SHOWN) -> str:
    """Return the start of a foreign text for an error: on one line, well-formed, at most `most` characters."""
    line = " ".join(well_formed(text[: 4 * most]).replace("\0", " ").split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[:most]} …"


def plain_text(value: Any) -> str:
    """Return a value as text: bytes as hexadecimal digits, all other values as Python's `str`."""
    return value.hex() if isinstance(value, bytes) else str(value)


def json_text(value: Any) -> str:
    """Return a value as JSON; NaN and infinity, which JSON does not have, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, default=plain_text, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=plain_text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
