"""The texts of values as DuckDB writes them: `['a:b', NULL]` for a list, `1 year 02:00:00` for an interval."""

import re
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS

DUCKDB_LIST, DUCKDB_LISTS = "__duckdb_list", "__duckdb_lists"
DUCKDB_INTERVAL, DUCKDB_TEXT = "__duckdb_interval", "__duckdb_text"
DUCKDB_ITEM, DUCKDB_BYTES = "__duckdb_item", "__duckdb_bytes"
SIMPLE_UPPER, SIMPLE_LOWER = "__simple_upper", "__simple_lower"
"""The names of the functions in SQL."""
_SPECIAL: Final = re.compile(r"""['"\\,:=()\[\]{}]|^\s|\s$""")
_INTERVAL: Final = re.compile(r"(-?\d+(?:\.\d+)?) (mons|days|hours|mins|secs)")
_NANOS: Final = {"hours": 3_600_000_000_000, "mins": 60_000_000_000, "secs": 1_000_000_000}
_DAY: Final = 86_400_000_000_000
_ESCAPED: Final = frozenset(b"'\"\\")
_LISTS: Final = ("List", "LargeList", "FixedSizeList")
_NESTED: Final = ("Struct", "Map", "Union", "Dictionary")


def duckdb_list(lists: pa.Array, types: pa.Array) -> pa.Array:
    """Return the texts of lists by the texts of their elements and the name of their type.

    Raises:
        SqlError: the elements have parts, whose texts are unknown here.
    """
    rows = zip(lists.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if row is None else _list(row, kind) for row, kind in rows], pa.string())


def duckdb_lists(lists: pa.Array, types: pa.Array) -> pa.Array:
    """Return the texts of lists of lists; see `duckdb_list`."""
    found: list[str | None] = []
    for row, kind in zip(lists.to_pylist(), types.to_pylist(), strict=True):
        inner = None if row is None else [None if one is None else _list(one, kind) for one in row]
        found.append(None if inner is None else _joined(inner))
    return pa.array(found, pa.string())


def duckdb_interval(intervals: pa.Array, with_days: pa.Array) -> pa.Array:
    """Return the texts of intervals, as in `1 year 2 months -3 days 04:05:06.7`.

    With `with_days`, the time counts as days of 24 hours, as between two timestamps.
    """
    rows = zip(intervals.to_pylist(), with_days.to_pylist(), strict=True)
    return pa.array([None if one is None else _interval(*one, with_days=days) for one, days in rows], pa.string())


def duckdb_text(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return DuckDB's texts of values by their usual texts and the names of their types.

    Raises:
        SqlError: a value has parts, whose texts are unknown here.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array([None if text is None else plain_text(text, kind) for text, kind in rows], pa.string())


def duckdb_item(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Return the texts of values as a list or a struct shows them: in quotes if they have a sign such as a comma.

    Raises:
        SqlError: a value has parts, whose texts are unknown here.
    """
    rows = zip(texts.to_pylist(), types.to_pylist(), strict=True)
    return pa.array(["NULL" if text is None else _quoted(plain_text(text, kind)) for text, kind in rows], pa.string())


def duckdb_bytes(values: pa.Array) -> pa.Array:
    r"""Return the texts of bytes, as in `ab\xFF`: quotes, backslashes and bytes without a plain sign are numbers."""
    return pa.array([None if value is None else shown_bytes(value) for value in values.to_pylist()], pa.string())


def shown_bytes(value: bytes) -> str:
    """Return the text of bytes."""
    return "".join(chr(one) if 32 <= one < 127 and one not in _ESCAPED else f"\\x{one:02X}" for one in value)


def simple_upper(texts: pa.Array) -> pa.Array:
    """Return texts in capitals; each character stays one character, as in DuckDB: `ß` becomes `ẞ`."""
    return pc.utf8_upper(texts)


def simple_lower(texts: pa.Array) -> pa.Array:
    """Return texts in small letters; each character stays one character, as in DuckDB."""
    return pc.utf8_lower(texts)


def _interval(months: int, days: int, nanos: int, *, with_days: bool) -> str:
    sign = "-" if nanos < 0 else ""
    more, rest = divmod(abs(nanos), _DAY) if with_days else (0, abs(nanos))
    years = int(months / 12)
    counts = ((years, "year"), (months - 12 * years, "month"), (days + (-more if sign else more), "day"))
    words = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counts if count]
    seconds, fraction = divmod(rest // 1000, 1_000_000)
    if seconds or fraction or not words:
        clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        words.append(f"{clock}.{fraction:06}".rstrip("0") if fraction else clock)
    return " ".join(words)


def _list(values: list[str | None], kind: str) -> str:
    if kind.startswith((*_NESTED, *_LISTS)):
        raise SqlError(
            "a list of structs or maps, or of lists in lists, has no text here: write to_json(column) for a column of"
            " a table"
        )
    return _joined([None if one is None else _quoted(plain_text(one, kind)) for one in values])


def _joined(values: list[str | None]) -> str:
    return f"[{', '.join('NULL' if one is None else one for one in values)}]"


def _quoted(text: str) -> str:
    if text and text.upper() != "NULL" and not _SPECIAL.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain_text(text: str, kind: str) -> str:
    """Return the text of a value without parts, from Arrow's text."""
    if kind.startswith("Float"):
        return repr(float(text)) if kind == "Float64" else _real(np.float32(text))
    if kind.startswith("Timestamp"):
        return _time(text)
    if kind.startswith("Time"):
        return _short(text)
    if kind.startswith("Interval"):
        return _read_interval(text)
    if kind.startswith("Duration"):
        raise SqlError(
            "the time between two timestamps has no text in a list here: write CAST(a - b AS VARCHAR) of columns"
        )
    if kind.startswith((*_NESTED, *_LISTS)):
        raise SqlError(
            "a list, a struct or a map of this query has no text here: write array_to_string(list, ', '), or the texts"
            " of its parts"
        )
    return text


def _read_interval(text: str) -> str:
    """Return the text of an interval, from Arrow's text such as `1 mons 2 days 3.5 secs`."""
    parts = {unit: Decimal(count) for count, unit in _INTERVAL.findall(text)}
    nanos = sum(int(parts.get(unit, 0) * size) for unit, size in _NANOS.items())
    return _interval(int(parts.get("mons", 0)), int(parts.get("days", 0)), nanos, with_days=False)


def _real(number: np.float32) -> str:
    """Return the text of a real: as for a double, with the digits that tell it from other reals."""
    text = np.format_float_positional(number, unique=True, trim="0")
    size = abs(float(number))
    plain = size == 0 or 1e-4 <= size < 1e16 or not np.isfinite(number)
    return str(text) if plain else re.sub(r"\.?e", "e", np.format_float_scientific(number, unique=True, trim="-"))


def _time(text: str) -> str:
    zoned = text.endswith("Z")
    return _short(text.removesuffix("Z").replace("T", " ", 1)) + ("+00" if zoned else "")


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


FUNCTIONS: Final = (
    OwnFunction(duckdb_list, (TEXTS, pa.string()), pa.string(), DUCKDB_LIST),
    OwnFunction(duckdb_lists, (pa.list_(TEXTS), pa.string()), pa.string(), DUCKDB_LISTS),
    OwnFunction(duckdb_interval, (pa.month_day_nano_interval(), pa.bool_()), pa.string(), DUCKDB_INTERVAL),
    OwnFunction(duckdb_text, (pa.string(), pa.string()), pa.string(), DUCKDB_TEXT),
    OwnFunction(duckdb_item, (pa.string(), pa.string()), pa.string(), DUCKDB_ITEM),
    OwnFunction(duckdb_bytes, (pa.binary(),), pa.string(), DUCKDB_BYTES),
    OwnFunction(simple_upper, (pa.string(),), pa.string(), SIMPLE_UPPER),
    OwnFunction(simple_lower, (pa.string(),), pa.string(), SIMPLE_LOWER),
)
