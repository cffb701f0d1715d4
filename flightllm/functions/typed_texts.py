"""Texts and JSON of values of any types, as FORMAT and TO_JSON_STRING of BigQuery write them."""

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from flightllm.common.interval_texts import interval_of
from flightllm.errors import SqlError
from flightllm.functions.json_texts import json_of
from flightllm.functions.own import OwnFunction
from flightllm.functions.text_formats import FORMAT_ARGUMENTS

TYPED_FORMAT, TYPED_JSON, JSON_STRING = "__typed_format", "__typed_json", "__json_string"
"""The names of the functions in SQL."""
BASE64, HEXADECIMAL = "Bytes in base 64", "Bytes in base 16"
"""The names of the types of bytes whose texts are in these forms."""
_PLACE: Final = re.compile(r"%(?:%|([-+ 0#']*)(\*|\d*)(?:\.(\*|\d+))?([a-zA-Z]))|%")
_MOST_EXACT: Final = 2**53
"""The largest whole number that JSON of BigQuery has as a number; larger ones are texts."""
_WIDEST: Final = 1_000
_NESTED: Final = ("List", "LargeList", "FixedSizeList", "Struct", "Map")
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_OFFSET: Final = re.compile(r'("?)([-\d]+[T ][:\d]+)(\.\d+)?([-+]\d\d:\d\d)("?)')
"""The text of a time with its distance from UTC."""
_WORDS: Final = {"Date": "DATE", "Time64": "TIME", "Time32": "TIME"}


def typed_json(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the JSON of values by their texts and the names of their types; a time has a T between its parts.

    Raises:
        SqlError: a value is a list or a struct of an unknown type, or bytes whose type is unknown.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else _as_json(text, kind) for text, kind in rows], pa.string())


def json_strings(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the JSON of values as TO_JSON_STRING writes them.

    `1.0` is `1`. Wide whole numbers and decimals with a fraction are texts.

    Raises:
        SqlError: as for `typed_json`.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else _as_string(text, kind) for text, kind in rows], pa.string())


def typed_format(templates: pa.Array, values: pa.Array, types: pa.Array) -> pa.Array:
    """Return templates with values in place of `%d`, `%.2f`, `%t` and `%T`.

    A NULL gives NULL, except that `%t` and `%T` write it as the word NULL.

    Raises:
        SqlError: a place has no value, or its format does not fit the value.
    """
    rows = zip(templates.to_pylist(), values.to_pylist(), types.to_pylist(), strict=True)
    return pa.array(
        [None if one is None else _filled(one, texts or [], kinds or []) for one, texts, kinds in rows], pa.string()
    )


def _as_json(text: str, kind: str) -> str:
    if kind.startswith((*_NESTED, "Binary", "LargeBinary")):
        raise SqlError(
            "the type of the value is unknown here: compute it in a subquery, or cast it, as in CAST(x AS T)"
        )
    if kind.startswith("Interval"):
        return json.dumps(_iso_interval(text))
    if kind.startswith("Float") and not math.isfinite(float(text)):
        value = float(text)
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    made = json_of(text, kind)
    if kind.startswith("Timestamp"):
        return _iso(made, kind)
    return _plain(made) if kind.startswith("Decimal") else made


def _as_string(text: str, kind: str) -> str:
    made = _as_json(text, kind)
    if kind.startswith("Float"):
        return made.removesuffix(".0")
    if kind.startswith(("Int", "UInt", "Decimal")) and not kind.startswith("Interval"):
        return f'"{made}"' if "." in made or abs(int(made)) > _MOST_EXACT else made
    return made


def _iso_interval(text: str) -> str:
    """Return the text of an interval in the form of ISO 8601, as in `P1Y-2M3DT4H5M6.5S`."""
    found = interval_of(text)
    months, days, nanoseconds = found.months, found.days, found.nanoseconds
    years, months = _whole_and_rest(months, 12)
    minutes, rest = _whole_and_rest(nanoseconds, 60_000_000_000)
    hours, minutes = _whole_and_rest(minutes, 60)
    seconds = _plain(f"{Decimal(rest) / 1_000_000_000:f}")
    day = "".join(f"{count}{unit}" for count, unit in ((years, "Y"), (months, "M"), (days, "D")) if count)
    time = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    time += f"{seconds}S" if rest else ""
    return f"P{day}{'T' if time else ''}{time}" if day or time else "P0Y"


def _whole_and_rest(value: int, unit: int) -> tuple[int, int]:
    """Return a number in a larger unit and what is left, both with the sign of the number."""
    sign = -1 if value < 0 else 1
    return sign * (abs(value) // unit), sign * (abs(value) % unit)


def _plain(text: str) -> str:
    """Return a decimal without zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_zoned(kind: str) -> bool:
    """Return whether a type, such as `Timestamp(µs, "UTC")`, has a zone."""
    return "," in kind and not kind.endswith("None)")


def _iso(text: str, kind: str) -> str:
    zoned = _in_utc(text).removesuffix('"').removesuffix("Z").removesuffix("+00")
    return f'{zoned.replace(" ", "T", 1)}{"Z" if _is_zoned(kind) else ""}"'


def _in_utc(text: str) -> str:
    """Return the text of the same instant in UTC, if a text has another distance from UTC."""
    if (found := _OFFSET.fullmatch(text)) is None:
        return text
    try:
        moment = datetime.fromisoformat(f"{found[2]}{found[4]}").astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise SqlError(f"the time {text} has no text in UTC: write a time between the years 1 and 9999") from error
    return f"{found[1]}{moment.replace(tzinfo=None).isoformat()}{found[3] or ''}Z{found[5]}"


def _filled(template: str, texts: list[str | None], kinds: list[str]) -> str | None:
    given = list(zip(texts, kinds, strict=True))
    place, lost = 0, False

    def following() -> tuple[str | None, str]:
        nonlocal place
        if place >= len(given):
            raise _misfit(template, f"it has more places than the {len(given)} values")
        place += 1
        return given[place - 1]

    def one(found: re.Match[str]) -> str:
        nonlocal lost
        if found[0] == "%%":
            return "%"
        flags, width, precision, letter = found.groups()
        if letter is None:
            raise _misfit(template, "write %% for a percent sign")
        sizes = [following()[0] if size == "*" else size for size in (width, precision)]
        text, kind = following()
        if "*" in (width, precision) and None in (sizes[0], sizes[1] if precision else ""):
            lost = True
            return ""
        if text is None and letter not in "tT":
            lost = True
            return ""
        return _sized(template, flags, sizes, letter, text, kind)

    made = _PLACE.sub(one, template)
    if place != len(given):
        raise _misfit(template, f"it has {place} places for {len(given)} values")
    return None if lost else made


def _misfit(template: str, said: str) -> SqlError:
    return SqlError(
        f"the format {template[:100]!r} does not fit its values: {said}; write a place such as %d, %s or %t"
    )


def _sized(template: str, flags: str, sizes: list[str | None], letter: str, text: str | None, kind: str) -> str:
    width, digits = int(sizes[0] or 0), None if sizes[1] is None else int(sizes[1])
    if width < 0:
        flags, width = f"{flags}-", -width
    if max(width, digits or 0) > _WIDEST:
        raise _misfit(template, f"a width is larger than {_WIDEST}")
    if letter in "tT":
        body = printed(text, kind, literal=letter == "T")
        return _padded(body if digits is None else body[:digits], flags.replace("0", ""), width)
    value = text or ""
    whole = kind.startswith(("Int", "UInt")) and not kind.startswith("Interval")
    number = whole or kind.startswith(("Float", "Decimal"))
    if letter == "s":
        if number or not kind.startswith(("Utf8", "LargeUtf8")):
            raise _misfit(template, "%s takes a text, and %t any value")
        return _padded(value if digits is None else value[:digits], flags.replace("0", ""), width)
    if letter in "diuoxX" and whole:
        return _padded(_whole(int(value), letter, flags), flags, width)
    if letter in "fFeEgG" and number and not whole:
        return _padded(_fraction(value, kind, letter, flags, 6 if digits is None else digits), flags, width)
    if letter in "pP" and kind.startswith(("Utf8", "LargeUtf8")):
        return _padded(value, flags.replace("0", ""), width)
    raise _misfit(template, f"%{letter} does not take a value of its type")


def _whole(value: int, letter: str, flags: str) -> str:
    if letter in "oxX":
        return ("-" if value < 0 else "") + format(abs(value), f"{'#' if '#' in flags else ''}{letter}")
    return _signed(f"{abs(value):,}" if "'" in flags else str(abs(value)), flags, negative=value < 0)


def _fraction(text: str, kind: str, letter: str, flags: str, digits: int) -> str:
    value: Any = Decimal(text) if kind.startswith("Decimal") else float(text)
    if not math.isfinite(value):
        named = "nan" if math.isnan(value) else "inf"
        return _signed(named.upper() if letter.isupper() else named, flags, negative=value < 0)
    comma = "," if "'" in flags else ""
    size = value.copy_abs() if isinstance(value, Decimal) else abs(value)
    body = format(float(size) if letter in "gG" else size, f"{'#' if '#' in flags else ''}{comma}.{digits}{letter}")
    exponent = re.fullmatch(r"(.*[eE][+-])(\d)", body)  # a decimal has one digit there
    if exponent:
        body = f"{exponent[1]}0{exponent[2]}"
    return _signed(body, flags, negative=math.copysign(1, value) < 0)


def _signed(body: str, flags: str, *, negative: bool) -> str:
    return ("-" if negative else "+" if "+" in flags else " " if " " in flags else "") + body


def _padded(body: str, flags: str, width: int) -> str:
    if "-" in flags:
        return body.ljust(width)
    if "0" in flags and not body.lstrip("+- ").startswith(("inf", "nan", "INF", "NAN")):
        sign = body[:1] if body[:1] in {"-", "+", " "} else ""
        return sign + body[len(sign) :].rjust(width - len(sign), "0")
    return body.rjust(width)


def printed(text: str | None, kind: str, *, literal: bool) -> str:
    """Return a value as `%t` writes it, or as a `literal` of SQL as `%T` writes it."""
    if text is None:
        return "NULL"
    if kind.startswith(_NESTED):
        try:
            parts = json.loads(text, parse_float=_Number, parse_int=_Number)
        except ValueError as error:
            raise SqlError(
                "FORMAT cannot tell the type of a list: compute the list in a subquery, or write TO_JSON_STRING"
            ) from error
        return _nested(parts, kind, literal=literal)
    if kind.startswith("Float"):
        return _double(text, literal=literal)
    if kind.startswith("Timestamp"):
        shown = _in_utc(text).replace("T", " ", 1)
        zoned = _is_zoned(kind)
        shown = f"{shown.removesuffix('Z').removesuffix('+00')}+00" if zoned else shown
        return f"{'TIMESTAMP' if zoned else 'DATETIME'} {_quoted(shown)}" if literal else shown
    if kind.startswith("Decimal"):
        shown = _plain(text)
        return f'NUMERIC "{shown}"' if literal else shown
    if kind.startswith(("Utf8", "LargeUtf8")):
        return _quoted(text) if literal else text
    return _odd(text, kind, literal=literal)


def _odd(text: str, kind: str, *, literal: bool) -> str:
    """Return bytes, an interval, a day or a time of day as `printed` writes them, and the text of another value."""
    if kind == HEXADECIMAL:
        return _bytes(bytes.fromhex(text), literal=literal)
    if kind.startswith("Interval"):
        shown = _interval(text)
        return f'INTERVAL "{shown}" YEAR TO SECOND' if literal else shown
    if kind.startswith(("Binary", "LargeBinary")):
        raise SqlError("FORMAT cannot tell that the value is bytes: compute it in a subquery, or write TO_HEX(bytes)")
    word = next((word for name, word in _WORDS.items() if kind.startswith(name)), None)
    return f'{word} "{text}"' if literal and word else text


def _double(text: str, *, literal: bool) -> str:
    value = float(text)
    if not math.isfinite(value):
        named = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return f'CAST("{named}" AS FLOAT64)' if literal else named
    shown = repr(value)
    return shown if any(letter in shown for letter in ".e") else f"{shown}.0"


def _quoted(text: str) -> str:
    """Return a text as a literal: in double quotes, or in single ones if the text has only double ones."""
    mark = "'" if '"' in text and "'" not in text else '"'
    return f"{mark}{''.join(_ESCAPES.get(one, f'{chr(92)}{one}' if one == mark else one) for one in text)}{mark}"


def _bytes(value: bytes, *, literal: bool) -> str:
    """Return bytes as `%t` writes them, or as a literal; those without a sign are hexadecimal."""
    mark = "'" if b'"' in value and b"'" not in value else '"'
    marks = mark if literal else "'\"`"
    signs = (chr(one) if 32 <= one < 127 else f"{chr(92)}x{one:02x}" for one in value)
    shown = "".join(f"{chr(92)}{one}" if one in {chr(92), *marks} else one for one in signs)
    return f"b{mark}{shown}{mark}" if literal else shown


def _interval(text: str) -> str:
    """Return an interval as BigQuery writes it, such as `1-2 3 4:5:6.789`."""
    found = interval_of(text)
    years, months = _whole_and_rest(found.months, 12)
    minutes, rest = _whole_and_rest(found.nanoseconds, 60_000_000_000)
    hours, minutes = _whole_and_rest(minutes, 60)
    seconds = _plain(f"{Decimal(abs(rest)) / 1_000_000_000:f}")
    signs = ["-" if one < 0 else "" for one in (found.months, found.nanoseconds)]
    return f"{signs[0]}{abs(years)}-{abs(months)} {found.days} {signs[1]}{abs(hours)}:{abs(minutes)}:{seconds}"


def _nested(value: Any, kind: str, *, literal: bool) -> str:
    if any(word in kind for word in ("Date", "Time", "Decimal", "Binary")):
        raise SqlError("FORMAT takes lists and structs of texts, numbers and truth values: write TO_JSON_STRING(value)")
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(_nested(one, '', literal=literal) for one in value)}]"
        case dict():
            return f"({', '.join(_nested(one, '', literal=literal) for one in value.values())})"
        case _Number():
            return str(value)
        case _:
            return _quoted(str(value)) if literal else str(value)


class _Number(str):
    """A number of a nested value, as JSON has it."""

    __slots__ = ()


FUNCTIONS: Final = (
    OwnFunction(typed_format, FORMAT_ARGUMENTS, pa.string(), TYPED_FORMAT),
    OwnFunction(typed_json, (pa.string(), pa.string()), pa.string(), TYPED_JSON),
    OwnFunction(json_strings, (pa.string(), pa.string()), pa.string(), JSON_STRING),
)
