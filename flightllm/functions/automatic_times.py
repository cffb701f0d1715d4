"""The texts of days and times as Snowflake reads them, in the form that DataFusion reads."""

import re
from calendar import month_abbr, month_name
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyarrow import compute

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

AUTOMATIC_TIME: Final = "__automatic_time"
"""The name of the function in SQL."""
_PLAIN: Final = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,9})?)?$"
"""The texts that DataFusion reads as Snowflake does."""
_FORMATS: Final = (
    "YYYY-MM-DD",
    "DD-MON-YYYY",
    "MM/DD/YYYY",
    *(f"YYYY-MM-DD{between}{clock}" for between in (" ", '"T"') for clock in ("HH24:MI:SS.FF", "HH24:MI", "HH24")),
    "MM/DD/YYYY HH24:MI:SS",
    "DY, DD MON YYYY HH24:MI:SS.FF",
    "DY, DD MON YYYY HH12:MI:SS.FF AM",
    "DY MON DD HH24:MI:SS TZ YYYY",
)
"""Snowflake's automatic formats. A zone can follow a time."""
_ZONE: Final = r" ?(?P<zone>Z|[+-]\d{1,2}(?::?\d\d)?)"
_LETTERS: Final = {
    "YYYY": r"(?P<year>\d{4})",
    "YY": r"(?P<short>\d\d)",
    "MMMM": r"(?P<name>[A-Za-z]{3,9})",
    "MON": r"(?P<name>[A-Za-z]{3})",
    "MM": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{1,2})",
    "DY": r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)",
    "HH24": r"(?P<hour>\d{1,2})",
    "HH12": r"(?P<hour>\d{1,2})",
    "AM": r"(?P<half>[AP]M)",
    "PM": r"(?P<half>[AP]M)",
    "MI": r"(?P<minute>\d{1,2})",
    "SS": r"(?P<second>\d{1,2})",
    "TZHTZM": _ZONE,
    "TZH:TZM": _ZONE,
    "TZH": _ZONE,
    "TZ": _ZONE,
}
_PART: Final = re.compile(
    rf'"(?P<plain>[^"]*)"|(?P<fraction>\.FF\d?)|(?P<letters>{"|".join(sorted(_LETTERS, key=len, reverse=True))})'
    r"|(?P<other>[^A-Za-z\"])",
    re.IGNORECASE,
)
_SECONDS: Final = 31_536_000_000
"""The least number that counts milliseconds; 1,000 times as many count microseconds, and so on."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CENTURY: Final = 70
"""The first year of two digits in the last century."""
_NOON: Final = 12
_HELP: Final = {"date": "TO_DATE(text, 'DD.MM.YYYY')", "ntz": "TO_TIMESTAMP(text, 'DD.MM.YYYY HH24:MI')"}


def automatic_time(texts: pa.Array, kinds: pa.Array, formats: pa.Array) -> pa.Array:
    """Return the texts of days and times in the form of ISO 8601.

    A kind is `date`, `ntz` for a time without a zone, `ltz` for an instant in UTC, or `tz` for a time with a zone.
    With `try` after a kind, a text in another form is NULL. A format is empty for the automatic formats.

    Raises:
        SqlError: a text has another form, or an offset from UTC that a column cannot keep.
    """
    if not len(texts) or (
        not formats[0].as_py() and compute.all(compute.match_substring_regex(texts, _PLAIN)).as_py() in {None, True}
    ):
        return texts
    rows = zip(texts.to_pylist(), kinds.to_pylist(), formats.to_pylist(), strict=True)
    return pa.array([None if text is None else plain_time(text, *more) for text, *more in rows], pa.string())


@lru_cache(maxsize=4096)
def plain_time(text: str, kind: str, format_: str = "") -> str | None:
    """Return a text in the form of ISO 8601; see `automatic_time`."""
    kind, _, tries = kind.partition(" ")
    made = _read(text.strip(), kind, format_)
    if made is None and not tries:
        has = f"the format {format_}" if format_ else "an automatic format of snowflake, such as 2024-01-31"
        raise SqlError(
            f"{text[:60]!r} does not have {has}: write {_HELP.get(kind, _HELP['ntz'])} with the text's own format, or"
            " TRY_ before the function's name"
        )
    return made


def offset_of(text: str) -> str | None:
    """Return the offset from UTC in the text of a time, such as `+05:00`, or None."""
    for found in _matches(text.strip(), ""):
        if zone := found.get("zone"):
            return _offset(zone)
    return None


def _read(text: str, kind: str, format_: str) -> str | None:
    if text.removeprefix("-").isdecimal() and not format_:
        return _counted(int(text), kind)
    for found in _matches(text, format_):
        try:
            made = _time(found)
        except ValueError:
            return None
        return _written(made, found, kind)
    return None


def _matches(text: str, format_: str) -> list[dict[str, str]]:
    found = [pattern.fullmatch(text) for pattern in _patterns(format_)]
    return [{name: value for name, value in one.groupdict().items() if value} for one in found if one is not None]


def _counted(count: int, kind: str) -> str | None:
    """Return the time that a number counts to from 1970: in seconds, or in smaller units if it is large."""
    power = 0
    while power < 9 and abs(count) >= _SECONDS * 10**power:
        power += 3
    seconds, rest = divmod(count, 10**power)
    try:
        time = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    fraction = f".{rest:0{power}d}" if rest else ""
    return time.date().isoformat() if kind == "date" else f"{time.replace(tzinfo=None).isoformat(' ')}{fraction}"


def _time(found: dict[str, str]) -> datetime:
    year = int(found.get("year", 1970))
    if "short" in found:
        year = int(found["short"]) + (1900 if int(found["short"]) >= _CENTURY else 2000)
    month = int(found.get("month", 1))
    if "name" in found:
        name = found["name"].title()
        names = [*month_abbr] if name in month_abbr else [*month_name]
        month = names.index(name)
    hour = int(found.get("hour", 0))
    if "half" in found:
        if not 1 <= hour <= _NOON:
            raise ValueError(hour)
        hour = hour % _NOON + (_NOON if found["half"].upper() == "PM" else 0)
    clock = (hour, int(found.get("minute", 0)), int(found.get("second", 0)))
    return datetime(year, month, int(found.get("day", 1)), *clock, tzinfo=UTC)


def _written(time: datetime, found: dict[str, str], kind: str) -> str:
    """Return the text of a time by its kind.

    Raises:
        SqlError: a time of the kind `tz` has another zone than UTC.
    """
    offset = _offset(found.get("zone", "Z"))
    if kind == "date":
        return time.date().isoformat()
    text = time.replace(tzinfo=None).isoformat(" ") + found.get("fraction", "")
    if kind == "tz" and offset != "+00:00":
        raise SqlError(
            f"a column keeps no offset such as {offset} for each row: write ::TIMESTAMP_LTZ for the instant in UTC, or"
            " ::TIMESTAMP_NTZ for the clock of the text"
        )
    return text if kind == "ntz" else f"{text}{offset}"


def _offset(zone: str) -> str:
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits or "0", "00")
    return f"{'-' if zone[0] == '-' else '+'}{int(hours):02d}:{minutes}"


@lru_cache(maxsize=256)
def _patterns(format_: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a format, or of the automatic ones; a zone can follow an automatic time.

    Raises:
        SqlError: a letter of the format is unknown.
    """
    if format_:
        return (_pattern(format_, ""),)
    return tuple(_pattern(one, f"(?:{_ZONE})?" if "HH" in one and "TZ" not in one else "") for one in _FORMATS)


def _pattern(format_: str, ending: str) -> re.Pattern[str]:
    written, at = "", 0
    while at < len(format_):
        part = _PART.match(format_, at)
        if part is None:
            raise SqlError(f"{format_[at:]!r} in the format {format_!r} is unknown: write one of {', '.join(_LETTERS)}")
        if part["letters"]:
            written += _LETTERS[part["letters"].upper()]
        elif part["fraction"]:
            written += r"(?P<fraction>\.\d{1,9})?"
        else:
            written += re.escape(part["plain"] if part["plain"] is not None else part["other"])
        at = part.end()
    try:
        return re.compile(written + ending, re.IGNORECASE)
    except re.error as error:
        raise SqlError(f"the format {format_!r} has a part twice: write each part once") from error


def check_format(format_: str) -> None:
    """Raise `SqlError` for a format with an unknown letter."""
    _patterns(format_)


FUNCTIONS: Final = (OwnFunction(automatic_time, (pa.string(), pa.string(), pa.string()), pa.string(), AUTOMATIC_TIME),)
