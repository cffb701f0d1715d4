"""Texts of intervals in PostgreSQL's style, such as `1 year -2 days 04:05:06.7`, and in that of ISO 8601."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction

import pyarrow as pa

_DAY_MICROS = 86_400_000_000
_PART = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)|\s*([+-])?(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?|\s*([+-]?[\d.]+)\s*$",
    re.IGNORECASE,
)
_YEARS_AND_MONTHS = re.compile(r"(?<![\w.-])([+-]?)(\d+)-(\d+)(?![\w.-])")
_DAYS_BEFORE_A_TIME = re.compile(r"(?<![\w.:])([+-]?\d+)\s+(?=[+-]?\d+:)")
_ISO = re.compile(
    r"P(?=.)" + "".join(rf"(?:([+-]?\d+(?:\.\d+)?){unit})?" for unit in "YMWD")
    + r"(?:T(?=.)" + "".join(rf"(?:([+-]?\d+(?:\.\d+)?){unit})?" for unit in "HMS") + ")?"
)  # fmt: skip
_UNITS: Mapping[str, tuple[int, int, int]] = {
    "y": (12, 0, 0),
    "yr": (12, 0, 0),
    "year": (12, 0, 0),
    "decade": (120, 0, 0),
    "century": (1200, 0, 0),
    "centurie": (1200, 0, 0),
    "mon": (1, 0, 0),
    "month": (1, 0, 0),
    "w": (0, 7, 0),
    "week": (0, 7, 0),
    "d": (0, 1, 0),
    "day": (0, 1, 0),
    "h": (0, 0, 3_600_000_000),
    "hr": (0, 0, 3_600_000_000),
    "hour": (0, 0, 3_600_000_000),
    "m": (0, 0, 60_000_000),
    "min": (0, 0, 60_000_000),
    "minute": (0, 0, 60_000_000),
    "s": (0, 0, 1_000_000),
    "sec": (0, 0, 1_000_000),
    "second": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1_000),
    "msec": (0, 0, 1_000),
    "microsecond": (0, 0, 1),
    "usec": (0, 0, 1),
}
"""Months, days and microseconds of the words in an interval's text."""


def interval_of(text: str) -> pa.MonthDayNano:
    """Read an interval in PostgreSQL's style, such as `1 year -2 days 04:05:06.7`.

    Raises:
        ValueError: the text is not an interval.
    """
    months = days = micros = 0
    at = 0
    text, is_past = _without_ago(_in_words(text))
    while at < len(text.rstrip()):
        found = _PART.match(text, at)
        if found is None:
            raise ValueError(text)
        if found[2]:
            unit = _UNITS.get(found[2].lower()) or _UNITS.get(found[2].lower().removesuffix("s"))
            if unit is None:
                raise ValueError(text)
            parts = _times(Fraction(found[1]), unit)
            months, days, micros = (a + b for a, b in zip((months, days, micros), parts, strict=True))
        elif found[4]:
            clock = timedelta(hours=int(found[4]), minutes=int(found[5]), seconds=int(found[6] or 0))
            part = clock // timedelta(microseconds=1) + int((found[7] or "").ljust(6, "0")[:6])
            micros += -part if found[3] == "-" else part
        else:
            micros += round(float(found[8]) * 1_000_000)
        at = found.end()
    sign = -1 if is_past else 1
    return pa.MonthDayNano([sign * months, sign * days, sign * micros * 1_000])


def interval_text(months: int, days: int, micros: int) -> str:
    """Return an interval in PostgreSQL's style, as in `1 year 2 mons -3 days +04:05:06.7`."""
    years = int(months / 12)
    return " ".join(_words(((years, "year"), (months - 12 * years, "mon"), (days, "day")), micros))


def period_text(months: int, days: int, micros: int) -> str:
    """Return an interval in the style of ISO 8601, such as `P1Y2M-3DT4H5M6.7S`."""
    years, months = int(months / 12), months - 12 * int(months / 12)
    date = "".join(f"{count}{unit}" for count, unit in ((years, "Y"), (months, "M"), (days, "D")) if count)
    hours, minutes, seconds, rest = _clock(micros)
    sign = "-" if micros < 0 else ""
    clock = "".join(f"{sign}{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    if seconds or rest or not (date or clock):
        clock += f"{sign}{seconds}{rest}S"
    return f"P{date}{'T' if clock else ''}{clock}"


def _words(counts: Sequence[tuple[int, str]], micros: int) -> Iterator[str]:
    """Yield the parts of an interval that are not 0; a part after a negative one has a sign."""
    after_negative, empty = False, True
    for count, unit in counts:
        if count:
            yield f"{'+' if after_negative and count > 0 else ''}{count} {unit}{'' if count == 1 else 's'}"
            after_negative, empty = count < 0, False
    if micros or empty:
        hours, minutes, seconds, rest = _clock(micros)
        sign = "-" if micros < 0 else "+" if after_negative else ""
        yield f"{sign}{hours:02}:{minutes:02}:{seconds:02}{rest}"


def _clock(micros: int) -> tuple[int, int, int, str]:
    """Return the hours, minutes and seconds of a length of time without its sign, and the text of the fraction."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    rest = f".{fraction:06d}".rstrip("0") if fraction else ""
    return seconds // 3600, seconds // 60 % 60, seconds % 60, rest


def _times(count: Fraction, unit: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a unit some times, in months, days and microseconds; as in PostgreSQL, a month's part has 30 days."""
    months = count * unit[0]
    days = count * unit[1] + (0 if unit[0] == 12 else (months - int(months)) * 30)
    micros = count * unit[2] + (days - int(days)) * _DAY_MICROS
    return int(months), int(days), round(micros)


def _without_ago(text: str) -> tuple[str, bool]:
    bare = text.strip()
    return (bare[:-4], True) if bare.lower().endswith(" ago") else (text, False)


def _in_words(text: str) -> str:
    """Return a text with words for the years of `1-2` and the days of `3 04:05`, and for a period of ISO 8601."""
    bare = _of_iso(text.strip().removeprefix("@"))
    bare = _YEARS_AND_MONTHS.sub(r"\1\2 years \1\3 months", bare)
    return _DAYS_BEFORE_A_TIME.sub(r"\1 days ", bare)


def _of_iso(text: str) -> str:
    """Return a period of ISO 8601, such as `P1DT2H`, in words; another text stays as it is."""
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return text
    words = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")
    return " ".join(f"{count} {word}" for count, word in zip(found.groups(), words, strict=True) if count)
