"""The texts of numbers and times by the formats of PostgreSQL's `to_char`."""

import re
from calendar import day_name, month_name
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.exact_decimals import rounded
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import each_row

NUMBER_BY_FORMAT, TIME_BY_FORMAT = "__number_by_format", "__time_by_format"
"""The names of the functions in SQL."""
_NUMBER_PART: Final = re.compile(r'"([^"]*)"|(FM|MI|PR|S|[90.,DG])|(.)', re.DOTALL | re.IGNORECASE)
_Parts = tuple[tuple[str, str], ...]
_MOST_PLACES: Final = 1_000
"""The most digits of a format."""
_TIME_LETTERS: Final = (
    "Y,YYY",
    *("SSSSS", "SSSS", "HH24", "HH12", "YYYY", "IYYY", "IDDD", "Month", "MONTH", "month", "A.M.", "a.m.", "P.M."),
    *("p.m.", "Day", "DAY", "day", "DDD", "MON", "Mon", "mon", "YYY", "HH", "MI", "SS", "MS", "US", "AM", "am", "PM"),
    *("pm", "YY", "MM", "DY", "Dy", "dy", "DD", "ID", "IW", "WW", "CC", "Y", "D", "W", "Q", "J"),
)
_CASES: Final = frozenset({"MONTH", "MON", "DAY", "DY", "AM", "PM", "A.M.", "P.M."})
"""Letters whose case is the case of the text."""
_TIME_PART: Final = re.compile(
    rf'"([^"]*)"|(FM)?({"|".join(re.escape(one) for one in _TIME_LETTERS)})(TH|th)?|([A-Za-z]+)|(.)',
    re.DOTALL | re.IGNORECASE,
)


def numbers_by_format(numbers: pa.Array, formats: pa.Array) -> pa.Array:
    """Return the texts of numbers by their formats, as in `to_char(12.5, 'FM990.00')`.

    Raises:
        SqlError: letters of a format are unknown, or a number is not finite.
    """
    return each_row(_number, numbers, formats)


def times_by_format(times: pa.Array, formats: pa.Array) -> pa.Array:
    """Return the texts of times without a zone by their formats, as in `to_char(t, 'FMDay, DD Mon')`.

    Raises:
        SqlError: letters of a format are unknown.
    """
    return each_row(_time, times, formats)


@lru_cache(maxsize=256)
def _number_parts(text: str) -> _Parts:
    """Return the parts of a format of numbers: a kind in capitals, or `text`, and its letters."""
    parts: list[tuple[str, str]] = []
    for quoted, kind, other in _NUMBER_PART.findall(text):
        if other.isalpha():
            raise SqlError(
                f"{other!r} in the format {text[:60]!r} of a number is unknown: write 9, 0, a point, a comma, S, MI, PR"
                " or FM"
            )
        parts.append((kind.upper().replace("D", ".").replace("G", ","), "") if kind else ("text", quoted or other))
    if len(parts) > _MOST_PLACES or sum(kind == "." for kind, _ in parts) > 1:
        raise SqlError(f"the format {text[:60]!r} of a number has too many places or points: write 'FM999,990.00'")
    return tuple(parts)


def _number(text: str, written: str) -> str:
    parts = _number_parts(written)
    try:
        value = Decimal(text)
    except ArithmeticError as error:
        raise SqlError("to_char with a format of digits takes numbers: write CAST(x AS DECIMAL(18, 2))") from error
    if not value.is_finite():
        raise SqlError("a number that is not finite has no text by a format: write CAST(x AS VARCHAR)")
    kinds = [kind for kind, _ in parts]
    point = kinds.index(".") if "." in kinds else len(kinds)
    places = [kind for kind in kinds[:point] if kind in "90"]
    after = [kind for kind in kinds[point:] if kind in "90"]
    short = "FM" in kinds
    digits = format(rounded(value.copy_abs(), len(after), ROUND_HALF_UP), "f")
    whole, _, fraction = digits.partition(".")
    whole = whole.lstrip("0") or ("" if after else "0")
    if len(whole) > len(places):
        whole, fraction = "#" * len(places), "#" * len(after)
    zero = places.index("0") if "0" in places else len(places)
    first = min(len(places) - len(whole), zero)
    before = whole.rjust(len(places), "0")
    kept = len(after)
    while short and kept and after[kept - 1] == "9" and fraction[kept - 1] == "0":
        kept -= 1
    minus = "-" if value < 0 and digits.strip("0.") else ""
    return _placed(parts, minus, (before, first, fraction[:kept]), short=short)


def _placed(parts: _Parts, minus: str, number: tuple[str, int, str], *, short: bool) -> str:
    """Return the text of a number: its digits before the point, the first of them that is written, and the rest."""
    digits, first, fraction = number
    blank = "" if short else " "
    sign, marks = _signs([kind for kind, _ in parts], minus, blank)
    written, place, begun, passed = "", 0, False, False
    for kind, letters in parts:
        if kind not in ("9", "0", "."):
            written += letters if kind == "text" else (("," if begun else blank) if kind == "," else marks[kind])
            continue
        if not begun and (kind == "." or place >= first):
            written, begun = written + sign, True
        if kind == ".":
            written, passed, place = f"{written}.", True, 0
            continue
        source = fraction if passed else digits
        written += source[place : place + 1] if begun else blank
        place += 1
    return written


def _signs(kinds: Sequence[str], minus: str, blank: str) -> tuple[str, Mapping[str, str]]:
    """Return the sign before the first digit, and the texts of S, MI, PR and FM in their places."""
    marks = {"S": minus or "+", "MI": minus or blank, "PR": ">" if minus else blank, "FM": ""}
    if "PR" in kinds:
        return "<" if minus else blank, marks
    if "MI" in kinds:
        return "", marks
    if "S" not in kinds:
        return minus or blank, marks
    leading = {"9", "0"} & set(kinds[kinds.index("S") :])
    return (minus or "+", {**marks, "S": ""}) if leading else ("", marks)


def _time(time: datetime, written: str) -> str:
    return "".join(_time_part(time, part, written) for part in _TIME_PART.finditer(written))


def _time_part(time: datetime, part: re.Match[str], written: str) -> str:
    quoted, short, letters, ordinal, unknown, other = part.groups()
    if unknown and unknown != "T":
        raise SqlError(
            f"{unknown!r} in the format {written[:60]!r} of a time is unknown: put texts in double quotes, as in"
            " 'YYYY-MM-DD \"at\" HH24:MI'"
        )
    if not letters:
        return quoted if quoted is not None else (unknown or other)
    name = letters.upper()
    text, size = _VALUES[name](time)
    if name in _CASES:
        text = text.upper() if letters.isupper() else text.lower() if letters.islower() else text
        text = text if short else text.ljust(size)
    elif not short:
        text = text.rjust(size, "0")
    if ordinal:
        text += _ordinal(text).upper() if ordinal == "TH" else _ordinal(text)
    return text


def _ordinal(digits: str) -> str:
    teens = digits[-2:-1] == "1"
    return "th" if teens else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")


def _half(time: datetime) -> str:
    return "PM" if time.hour >= 12 else "AM"


def _dotted(time: datetime) -> str:
    return "P.M." if time.hour >= 12 else "A.M."


def _second(time: datetime) -> int:
    return time.hour * 3600 + time.minute * 60 + time.second


_VALUES: Final[Mapping[str, Callable[[datetime], tuple[str, int]]]] = {
    **dict.fromkeys(("SSSSS", "SSSS"), lambda time: (str(_second(time)), 0)),
    "HH24": lambda time: (str(time.hour), 2),
    **dict.fromkeys(("HH12", "HH"), lambda time: (str(time.hour % 12 or 12), 2)),
    "MI": lambda time: (str(time.minute), 2),
    "SS": lambda time: (str(time.second), 2),
    "MS": lambda time: (f"{time.microsecond // 1000:03}", 3),
    "US": lambda time: (f"{time.microsecond:06}", 6),
    **dict.fromkeys(("AM", "PM"), lambda time: (_half(time), 2)),
    **dict.fromkeys(("A.M.", "P.M."), lambda time: (_dotted(time), 4)),
    **{"Y" * count: lambda time, count=count: (str(time.year % 10**count), count) for count in range(1, 4)},  # type: ignore[misc]
    "Y,YYY": lambda time: (f"{time.year // 1000},{time.year % 1000:03}", 0),
    "YYYY": lambda time: (str(time.year), 4),
    "IYYY": lambda time: (str(time.isocalendar().year), 4),
    "MONTH": lambda time: (month_name[time.month], 9),
    "MON": lambda time: (month_name[time.month][:3], 3),
    "MM": lambda time: (str(time.month), 2),
    "DAY": lambda time: (day_name[time.weekday()], 9),
    "DY": lambda time: (day_name[time.weekday()][:3], 3),
    "DDD": lambda time: (str(time.timetuple().tm_yday), 3),
    "IDDD": lambda time: (str((time.isocalendar().week - 1) * 7 + time.isoweekday()), 3),
    "DD": lambda time: (str(time.day), 2),
    "D": lambda time: (str(time.isoweekday() % 7 + 1), 1),
    "ID": lambda time: (str(time.isoweekday()), 1),
    "IW": lambda time: (str(time.isocalendar().week), 2),
    "WW": lambda time: (str((time.timetuple().tm_yday - 1) // 7 + 1), 2),
    "W": lambda time: (str((time.day - 1) // 7 + 1), 1),
    "CC": lambda time: (str((time.year + 99) // 100), 2),
    "Q": lambda time: (str((time.month - 1) // 3 + 1), 1),
    "J": lambda time: (str(time.toordinal() + 1_721_425), 0),
}
"""The text of each part of a time, and the size to which the part grows."""


FUNCTIONS: Final = (
    OwnFunction(numbers_by_format, (pa.string(), pa.string()), pa.string(), NUMBER_BY_FORMAT),
    OwnFunction(times_by_format, (pa.timestamp("us"), pa.string()), pa.string(), TIME_BY_FORMAT),
)
