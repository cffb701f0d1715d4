"""The texts of times as PostgreSQL reads them, in a form that DataFusion reads in the same way."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow import compute

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

TIME_TEXT, TIMESTAMP_TEXT, ZONED_TEXT = "__time_text", "__timestamp_text", "__zoned_text"
"""The names of the functions in SQL."""
_MICROS: Final = 6
"""The digits of a second's fraction that PostgreSQL keeps."""
_ODD: Final = r"\.\d{7}|^\s*\d+\s*$|[+-]\d\d(:?\d\d)?\s*$"
"""A text needs one of these for the two to read it in different ways."""
_ZONE: Final = re.compile(r"(.*\d\d:\d\d(?::\d\d(?:\.\d+)?)?)\s*(?![+-]00(?::?00)?\s*$)[+-]\d\d(?::?\d\d){0,2}\s*")
_FRACTION: Final = re.compile(r"(.*\d\d:\d\d:\d\d)(\.\d+)(.*)", re.DOTALL)
_DIGITS: Final = re.compile(r"\s*(\d+)\s*")
_ENDS: Final = (1677, 2262)
"""The years in which the times end that nanoseconds represent: their last digits decide."""
_MIDNIGHT: Final = "2000-01-01 "


def time_text(values: pa.Array) -> pa.Array:
    """Return texts of times of a day; see `plain_time`."""
    return _changed(values, plain_time)


def timestamp_text(values: pa.Array) -> pa.Array:
    """Return texts of timestamps without a zone; see `plain_timestamp`."""
    return _changed(values, plain_timestamp)


def zoned_text(values: pa.Array) -> pa.Array:
    """Return texts of timestamps with a zone; see `plain_timestamp`."""
    return _changed(values, partial(plain_timestamp, zoned=True))


def plain_time(text: str) -> str:
    """Return `08:30:00` for `083000`, and a text whose fraction of a second is rounded to microseconds.

    Raises:
        SqlError: a text of digits does not have the form of a time.
    """
    digits = _DIGITS.fullmatch(text)
    if digits is None:
        return _rounded(_MIDNIGHT + text, _MICROS).removeprefix(_MIDNIGHT)
    if len(digits[1]) not in {4, 6}:
        raise SqlError(f"'{text}' must have the form of a time, as in '08:30:00'")
    return ":".join(digits[1][at : at + 2] for at in range(0, len(digits[1]), 2))


def plain_timestamp(text: str, digits: int = _MICROS, *, zoned: bool = False) -> str:
    """Return a text without its zone, unless it is `zoned`; the fraction of its second is rounded to some digits."""
    zone = None if zoned else _ZONE.fullmatch(text)
    return _rounded(zone[1] if zone else text, min(digits, _MICROS))


def _rounded(text: str, digits: int) -> str:
    found = _FRACTION.fullmatch(text)
    if found is None or len(found[2]) <= digits + 1:
        return text
    try:
        second = datetime.fromisoformat(found[1].strip())
    except ValueError:  # DataFusion's own error says what is wrong
        return text
    if second.year in _ENDS:
        return text
    micros = Decimal(found[2]).quantize(Decimal(1).scaleb(-_MICROS), ROUND_HALF_EVEN)
    fraction = micros.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    after = second + timedelta(microseconds=int(fraction * 10**_MICROS))
    if found[1].startswith(_MIDNIGHT) and after.day != second.day and text.startswith(_MIDNIGHT):
        return f"{_MIDNIGHT}24:00:00"
    return f"{after.isoformat(' ', 'microseconds')}{found[3]}"


def _changed(values: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Return texts of which `change` wrote the odd ones in another way."""
    odd = compute.fill_null(compute.match_substring_regex(values, _ODD), fill_value=False)
    if not compute.any(odd).as_py():
        return values
    pairs = zip(values.to_pylist(), odd.to_pylist(), strict=True)
    return pa.array([change(one) if differs else one for one, differs in pairs], pa.string())


FUNCTIONS: Final = (
    OwnFunction(time_text, (pa.string(),), pa.string(), TIME_TEXT),
    OwnFunction(timestamp_text, (pa.string(),), pa.string(), TIMESTAMP_TEXT),
    OwnFunction(zoned_text, (pa.string(),), pa.string(), ZONED_TEXT),
)
