"""Times as texts and texts as times by a format with percent signs, as in BigQuery."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

WRITTEN_TIME, READ_TIME = "__written_time", "__read_time"
"""The names of the functions in SQL."""
IN_MICROSECONDS: Final = (
    "arrow_cast(arrow_cast({}, 'Timestamp(Microsecond, Some(\"UTC\"))'), 'Timestamp(Microsecond, None)')"
)
"""SQL of a time in UTC for these functions. Nanoseconds end with the year 2262, and begin with 1677."""
_TOKEN: Final = re.compile(r"%(\^|!)?(E[*\d]S|E4Y|E[zxXyYcC]|.)|(\s+)|([^%\s]+)", re.DOTALL)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
_LONGER: Final = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "r": "%I:%M:%S %p",
    "h": "%b",
    "E4Y": "%Y",
    "Ez": "%:",
    **{f"E{letter}": f"%{letter}" for letter in "xXyYcC"},
}
"""Letters that stand for several others."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - times of UTC have no zone here
_DAY_HOURS, _HOUR_MINUTES = 24, 60
_ZONE: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?(\d\d))?")


def written_time(times: pa.Array, formats: pa.Array, zones: pa.Array) -> pa.Array:
    """Return the texts of times by their formats, on the clocks of zones.

    Raises:
        SqlError: a letter of a format or a zone is unknown.
    """
    return each_row(_written, times, formats, zones)


def read_time(texts: pa.Array, formats: pa.Array, zones: pa.Array, safe: pa.Array) -> pa.Array:
    """Return the times of texts by their formats, in UTC; parts that a format lacks are those of 1970-01-01.

    A zone counts for a text that names none. An error is NULL where `safe` is true.

    Raises:
        SqlError: a text does not have its format, or a letter of the format is unknown.
    """
    return each_row(_read, texts, formats, zones, safe, kind=pa.timestamp("us"))


def zone_of(name: str) -> ZoneInfo | timezone:
    """Return a zone by its name or by its hours, as in `+05:30`.

    Raises:
        SqlError: the zone is unknown.
    """
    if found := _ZONE.fullmatch(name.strip()):
        hours, rest = int(found[2]), int(found[3] or 0)
        if hours >= _DAY_HOURS or rest >= _HOUR_MINUTES:
            raise SqlError(f"the time zone {name[:60]!r} is out of range: write one up to '+23:59', as in '+05:30'")
        minutes = 60 * hours + rest
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SqlError(
            f"the time zone {name[:60]!r} is unknown: write one such as 'Europe/Paris' or '+05:30'"
        ) from error


@lru_cache(maxsize=256)
def _parts(text: str) -> tuple[tuple[str, str, str], ...]:
    """Return the parts of a format: the letters with the case of their texts, or a text."""
    found: list[tuple[str, str, str]] = []
    for case, letters, space, plain in _TOKEN.findall(text):
        if letters in _LONGER:
            found += _parts(_LONGER[letters])
        elif letters:
            found.append((letters, case, ""))
        else:
            found.append(("", "", space or plain))
    if text.endswith("%") and (len(text) - len(text.rstrip("%"))) % 2:
        raise SqlError(f"the format {text[:100]!r} ends with a percent sign: write %% for one")
    return tuple(found)


def _written(time: datetime, text: str, zone: str) -> str:
    try:
        there = time.replace(tzinfo=UTC).astimezone(zone_of(zone))
    except OverflowError as error:
        raise SqlError(
            f"the time {time} has no text in the zone {zone[:60]!r}: write a time between the years 1 and 9999"
        ) from error
    return "".join(plain or _cased(_letter(letters, there, text), case) for letters, case, plain in _parts(text))


def _cased(text: str, case: str) -> str:
    return text.upper() if case == "^" else text.lower() if case == "!" else text


def _letter(letters: str, time: datetime, text: str) -> str:
    if letters in _WRITERS:
        return _WRITERS[letters](time)
    if letters[0] == "E" and letters[-1] == "S" and len(letters) == 3:
        micros = f"{time.microsecond:06d}000"
        fraction = micros.rstrip("0") if letters[1] == "*" else micros[: int(letters[1])]
        return f"{time.second:02d}{'.' if fraction else ''}{fraction}"
    raise _unknown(letters, text)


def _unknown(letters: str, text: str) -> SqlError:
    return SqlError(
        f"%{letters} in the format {text[:100]!r} is unknown: write one of {' '.join(f'%{one}' for one in _WRITERS)}"
    )


def _offset(time: datetime, between: str) -> str:
    minutes = int((time.utcoffset() or timedelta()).total_seconds() // 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{between}{abs(minutes) % 60:02d}"


def _zone_name(time: datetime) -> str:
    minutes = int((time.utcoffset() or timedelta()).total_seconds() // 60)
    if not minutes:
        return "UTC"
    rest = f":{abs(minutes) % 60:02d}" if minutes % 60 else ""
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60}{rest}"


def _week(time: datetime, first: int) -> str:
    """Return the number of the week, where week 1 begins with the year's first `first` (0 is Monday)."""
    return f"{(time.timetuple().tm_yday + 6 - (time.weekday() - first) % 7) // 7:02d}"


_WRITERS: Final[dict[str, Callable[[datetime], str]]] = {
    "Y": lambda time: str(time.year),
    "y": lambda time: f"{time.year % 100:02d}",
    "C": lambda time: f"{time.year // 100:02d}",
    "G": lambda time: str(time.isocalendar().year),
    "g": lambda time: f"{time.isocalendar().year % 100:02d}",
    "Q": lambda time: str((time.month + 2) // 3),
    "m": lambda time: f"{time.month:02d}",
    "B": lambda time: _MONTHS[time.month - 1],
    "b": lambda time: _MONTHS[time.month - 1][:3],
    "d": lambda time: f"{time.day:02d}",
    "e": lambda time: f"{time.day:2d}",
    "j": lambda time: f"{time.timetuple().tm_yday:03d}",
    "A": lambda time: _DAYS[time.weekday()],
    "a": lambda time: _DAYS[time.weekday()][:3],
    "u": lambda time: str(time.isoweekday()),
    "w": lambda time: str(time.isoweekday() % 7),
    "U": lambda time: _week(time, 6),
    "W": lambda time: _week(time, 0),
    "V": lambda time: f"{time.isocalendar().week:02d}",
    "H": lambda time: f"{time.hour:02d}",
    "k": lambda time: f"{time.hour:2d}",
    "I": lambda time: f"{time.hour % 12 or 12:02d}",
    "l": lambda time: f"{time.hour % 12 or 12:2d}",
    "M": lambda time: f"{time.minute:02d}",
    "S": lambda time: f"{time.second:02d}",
    "p": lambda time: "AM" if time.hour < 12 else "PM",
    "P": lambda time: "am" if time.hour < 12 else "pm",
    "s": lambda time: str(int(time.timestamp() // 1)),
    "Z": _zone_name,
    "z": lambda time: _offset(time, ""),
    ":": lambda time: _offset(time, ":"),
    "n": lambda _: "\n",
    "t": lambda _: "\t",
    "%": lambda _: "%",
}
_PATTERNS: Final = {
    "Y": r"([+-]?\d{1,4})",
    "y": r"(\d{1,2})",
    "m": r"(\d{1,2})",
    "d": r"\s*(\d{1,2})",
    "e": r"\s*(\d{1,2})",
    "j": r"(\d{1,3})",
    "H": r"(\d{1,2})",
    "k": r"\s*(\d{1,2})",
    "I": r"(\d{1,2})",
    "l": r"\s*(\d{1,2})",
    "M": r"(\d{1,2})",
    "S": r"(\d{1,2})",
    "s": r"([+-]?\d+)",
    "p": r"([AaPp][Mm])",
    "P": r"([AaPp][Mm])",
    "b": r"([A-Za-z]+)",
    "B": r"([A-Za-z]+)",
    "a": rf"({'|'.join(f'{day}|{day[:3]}' for day in _DAYS)})",
    "A": rf"({'|'.join(f'{day}|{day[:3]}' for day in _DAYS)})",
    "z": r"([+-]\d\d:?\d\d)",
    ":": r"(Z|[+-]\d\d:?\d\d)",
    "Z": r"([A-Za-z_]+(?:/[A-Za-z_]+)*(?:[+-]\d{1,2}(?::?\d\d)?)?)",
    "n": r"\s*",
    "t": r"\s*",
    "%": "%",
}
"""The patterns of the letters in a text."""


@lru_cache(maxsize=256)
def _reader(text: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return the pattern of a format, and the letters of its groups."""
    pattern, letters = "", list[str]()
    for found, _, plain in _parts(text):
        if not found:
            pattern += r"\s*" if plain.isspace() else re.escape(plain)
            continue
        if found[0] == "E" and found[-1] == "S":
            digits = r"\.\d+" if found[1] == "*" else rf"\.\d{{1,{found[1]}}}" if found[1] != "0" else ""
            pattern += rf"(\d{{1,2}}(?:{digits})?)"
            letters.append("S")
            continue
        if found not in _PATTERNS:
            raise _unknown(found, text)
        pattern += _PATTERNS[found]
        if "(" in _PATTERNS[found]:
            letters.append(found)
    return re.compile(rf"\s*{pattern}\s*", re.IGNORECASE), tuple(letters)


def _read(text: str, written: str, zone: str, safe: bool) -> datetime | None:  # noqa: FBT001 - one row
    try:
        return _time(_found(text, *_reader(written)), zone)
    except (ValueError, OverflowError, SqlError) as error:
        if safe:
            return None
        raise SqlError(
            f"the text {text[:100]!r} does not have the format {written[:100]!r}: write SAFE before the function's name"
            " and a dot, and it is NULL"
        ) from error


def _found(text: str, pattern: re.Pattern[str], letters: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of a time's parts by their letters.

    Raises:
        ValueError: the text does not have the format.
    """
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError
    return dict(zip(letters, found.groups(), strict=True))


def _time(parts: dict[str, str], zone: str) -> datetime:
    """Return the time of the texts of its parts.

    Raises:
        ValueError: a part is out of its range.
    """
    if "s" in parts:
        return _EPOCH + timedelta(seconds=int(parts["s"]))
    whole = {letter: int(parts[letter]) for letter in "YymdejHkIlM" if letter in parts}
    year = whole.get("Y", 1970)
    if "y" in whole:
        year = whole["y"] + (2000 if whole["y"] < 69 else 1900)
    month = whole.get("m", 1)
    if name := parts.get("B") or parts.get("b"):
        month = _month(name)
    hour = whole.get("H", whole.get("k", 0))
    if (half := whole.get("I", whole.get("l"))) is not None:
        if not 1 <= half <= 12:
            raise ValueError
        hour = half % 12 + (12 if (parts.get("p") or parts.get("P") or "am").lower() == "pm" else 0)
    second, _, fraction = parts.get("S", "0").partition(".")
    more = 0
    if int(second) == 60:  # a leap second is the first second of the next minute
        second, more = "59", 1
    made = (
        datetime(  # noqa: DTZ001 - the zone follows below
            year,
            month,
            whole.get("d", whole.get("e", 1)),
            hour,
            whole.get("M", 0),
            int(second),
            int(f"{fraction:0<6}"[:6]),
        )
        + timedelta(seconds=more)
    )
    if "j" in whole:
        made += timedelta(days=whole["j"] - made.timetuple().tm_yday)
    named = parts.get(":") or parts.get("z") or parts.get("Z") or zone
    there = UTC if named.upper() in {"Z", "UTC"} else zone_of(named)
    return made.replace(tzinfo=there).astimezone(UTC).replace(tzinfo=None)


def _month(name: str) -> int:
    found = [number for number, one in enumerate(_MONTHS, 1) if name.lower() in {one.lower(), one[:3].lower()}]
    if not found:
        raise ValueError
    return found[0]


FUNCTIONS: Final = (
    OwnFunction(written_time, (pa.timestamp("us"), pa.string(), pa.string()), pa.string(), WRITTEN_TIME),
    OwnFunction(read_time, (pa.string(), pa.string(), pa.string(), pa.bool_()), pa.timestamp("us"), READ_TIME),
)
