"""The texts of values as PostgreSQL writes them; DataFusion writes `1e100`, `1 mons` and `[a, b]`."""

import re
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from flightllm.common import interval_texts
from flightllm.functions.own import OwnFunction

DOUBLE_TEXT, REAL_TEXT, INTERVAL_TEXT, ARRAY_TEXT = "__double_text", "__real_text", "__interval_text", "__array_text"
"""The names of the functions in SQL."""
_DOUBLE_DIGITS: Final = 15
_REAL_DIGITS: Final = 6
"""The most digits before the point of a text without an exponent."""
_SMALLEST: Final = -4
"""The least exponent of a text without an exponent."""
_LEAST_PLAIN, _MOST_PLAIN = -3, 7
"""The least exponent of a text of Java without an exponent, and the first exponent that it writes."""
VENDOR_DOUBLE: Final = "__vendor_double"
"""The name in SQL of the texts in other styles than PostgreSQL's."""
_DAY: Final = 86_400_000_000_000
_QUOTED: Final = re.compile(r'[{}",\\\s]')


def double_text(values: pa.Array) -> pa.Array:
    """Return the texts of doubles: the fewest digits that tell a value from all others, as in `1e+100` and `2`."""
    return pa.array(
        [None if one is None else _number(repr(one), _DOUBLE_DIGITS) for one in values.to_pylist()], pa.string()
    )


def number_text(value: float) -> str:
    """Return the text of one double; see `double_text`."""
    return _number(repr(value), _DOUBLE_DIGITS)


def vendor_double_text(values: pa.Array, styles: pa.Array) -> pa.Array:
    """Return the texts of doubles in a style: `10000000000.0` for duckdb, `1.0E10` for spark, as Java writes it."""
    rows = zip(values.to_pylist(), styles.to_pylist(), strict=True)
    found = (None if one is None else repr(one) if style == "duckdb" else java_text(one) for one, style in rows)
    return pa.array(found, pa.string())


def java_text(number: float) -> str:
    """Return a double as Java writes it, as in `1.0E10`."""
    value = Decimal(repr(number))
    if not value.is_finite():
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")
    exponent = value.adjusted()
    if not value or _LEAST_PLAIN <= exponent < _MOST_PLAIN:
        return format(value, "f") if "." in format(value, "f") else f"{format(value, 'f')}.0"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    return f"{'-' if value.is_signed() else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def real_text(values: pa.Array) -> pa.Array:
    """Return the texts of reals; see `double_text`."""
    found = (None if one is None else _number(str(np.float32(one)), _REAL_DIGITS) for one in values.to_pylist())
    return pa.array(found, pa.string())


def interval_text(intervals: pa.Array, with_days: pa.Array) -> pa.Array:
    """Return the texts of intervals, as in `1 mon -2 days +03:00:00`.

    With `with_days`, the time counts as days of 24 hours, as between two timestamps.
    """
    rows = zip(intervals.to_pylist(), with_days.to_pylist(), strict=True)
    found = (None if one is None else _interval(*one, with_days=days) for one, days in rows)
    return pa.array(found, pa.string())


def array_text(arrays: pa.Array) -> pa.Array:
    """Return the texts of arrays of texts, as in `{a,"b c",NULL}`."""
    found = (None if one is None else f"{{{','.join(map(_element, one))}}}" for one in arrays.to_pylist())
    return pa.array(found, pa.string())


def _number(shortest: str, most_digits: int) -> str:
    """Return a number as text, from its shortest text in Python."""
    value = Decimal(shortest)
    if not value.is_finite():
        return str(value)
    exponent = value.adjusted() if value else 0
    if _SMALLEST <= exponent < most_digits:
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if value.is_signed() else ''}{digits[0]}{fraction}e{exponent:+03}"


def _interval(months: int, days: int, nanos: int, *, with_days: bool) -> str:
    sign = -1 if nanos < 0 else 1
    more, rest = divmod(abs(nanos), _DAY) if with_days else (0, abs(nanos))
    return interval_texts.interval_text(months, days + sign * more, sign * (rest // 1000))


def _element(value: str | None) -> str:
    if value is None:
        return "NULL"
    if value and value.upper() != "NULL" and not _QUOTED.search(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


FUNCTIONS: Final = (
    OwnFunction(double_text, (pa.float64(),), pa.string(), DOUBLE_TEXT),
    OwnFunction(vendor_double_text, (pa.float64(), pa.string()), pa.string(), VENDOR_DOUBLE),
    OwnFunction(real_text, (pa.float32(),), pa.string(), REAL_TEXT),
    OwnFunction(interval_text, (pa.month_day_nano_interval(), pa.bool_()), pa.string(), INTERVAL_TEXT),
    OwnFunction(array_text, (pa.list_(pa.string()),), pa.string(), ARRAY_TEXT),
)
