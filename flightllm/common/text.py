"""Values as text and as JSON, for people and for programs, and the shared start of two texts."""

import json
import math
from collections.abc import Sequence
from typing import Any

from flightllm.common.redaction import redacted_start
from flightllm.errors import InvalidInputError

_SHOWN = 300
"""Characters of a foreign text that an error shows."""
_FIRST_STEP = 4
"""The items of the first step in the search for the end of a shared start."""


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
    start = redacted_start(text, 4 * most)  # a plain cut could leave the start of a secret
    line = " ".join(well_formed(start).replace("\0", " ").split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[:most]} …"


def plain_text(value: Any) -> str:
    """Return a value as text: bytes as hexadecimal digits, all other values as Python's `str`."""
    return value.hex() if isinstance(value, bytes) else str(value)


def json_text(value: Any, *, is_compact: bool = False) -> str:
    """Return a value as JSON, if wanted without blanks; NaN and infinity, which JSON does not have, become null."""
    marks = (",", ":") if is_compact else None
    try:
        return json.dumps(value, ensure_ascii=False, default=plain_text, allow_nan=False, separators=marks)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=plain_text, separators=marks)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def shared_start(left: Sequence[Any], right: Sequence[Any], guess: int = 0) -> int:
    """Return how many leading items two texts, lists or tuples share, such as characters or tokens.

    A `guess` at or a little below the answer saves most of the work: prompts of one call share about the same prefix.
    Doubling steps find a range with the first difference. Halving then finds the difference in this range. Python
    compares slices many times faster than it loops over items.
    """
    if type(left) is not type(right):
        left, right = list(left), list(right)
    most = min(len(left), len(right))
    low = guess if guess <= most and left[:guess] == right[:guess] else 0
    step = _FIRST_STEP
    while left[low : low + step] == right[low : low + step]:
        low += step
        if low >= most:
            return most
        step *= 2
    high = min(low + step, most)
    while low < high:  # both agree up to `low`, and differ before the end of the range if not all of it agrees
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
